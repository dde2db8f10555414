// Rows of PopTorch's own ops that are primitives: frontends/torch/own_ops.cpp declares them.
#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// poptorch.ipu_print_tensor.
Values print_tensor(Call& c) {
  const TensorValue x = c.tensor(0);
  Attrs attrs{{"title", c.text("title")}, {"print_gradient", c.flag("print_gradient")}};
  for (const char* name : {"summarise_threshold", "edge_items", "max_line_width", "digits"}) {
    attrs.set(name, c.integer(name));
  }
  for (const char* name : {"float_format", "separator", "open_bracket", "close_bracket"}) {
    attrs.set(name, c.text(name));
  }
  return {{c.emit("print_tensor", {x.value}, attrs), x.dtype}};
}

}  // namespace

void add_own_rules(Rules& r) { r.add("poptorch::print_tensor", print_tensor); }

}  // namespace poptorch::frontend
