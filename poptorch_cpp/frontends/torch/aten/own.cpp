// Rows of PopTorch's own primitive ops, which frontends/torch/poptorch_ops.cpp declares.
#include "frontends/torch/aten/own.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Implements poptorch.ipu_print_tensor.
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

Val as_indices(Call& c, const TensorValue& x) { return c.cast(x.value, DType::kI32); }

// Implements poptorch.ctc_beam_search_decoder.
Values beam_search(Call& c) {
  const TensorValue x = c.tensor(0);
  Attrs attrs;
  for (const char* name : {"blank", "beam_width", "top_paths"}) attrs.set(name, c.integer(name));
  const ir::Op* op =
      c.builder().emit("ctc_beam_search", {x.value, as_indices(c, c.tensor(1))}, attrs);
  return {{op->result(0), x.dtype}, {op->result(1), DType::kI32}, {op->result(2), DType::kI32}};
}

// Implements poptorch.fps.
Values farthest_points(Call& c) {
  const TensorValue x = c.tensor(0);
  const Ints borders = c.ints("borders");
  const int64_t groups = std::max<int64_t>(std::ssize(borders) - 1, 0);
  Val start = c.full({groups}, DType::kI32, 0);
  if (c.flag("random_start")) {
    std::vector<std::byte> bytes(static_cast<size_t>(groups) * 4);
    for (size_t g = 0; g + 1 < borders.size(); ++g) {
      const auto size = static_cast<float>(borders[g + 1] - borders[g]);
      std::memcpy(bytes.data() + 4 * g, &size, 4);
    }
    const Val sizes = c.val(c.builder().constant(ir::Literal({DType::kF32, {groups}}, bytes)));
    const Val place = c.emit("random_uniform", {}, {{"shape", Ints{groups}}}) * sizes;
    // The product with a number just below 1 may round up to the size.
    start = c.cast(c.emit("minimum", {c.emit("floor", {place}), sizes - 1.0}), DType::kI32);
  }
  return {{c.emit("farthest_points", {x.value, start},
                  {{"borders", borders}, {"counts", chosen_counts(borders, c.real("ratio"))}}),
           DType::kI32}};
}

// Implements poptorch.nearest.
Values nearest_points(Call& c) {
  const DType dtype = c.result_type({0, 1});
  std::vector<Value*> operands = {c.operand(0, dtype), c.operand(1, dtype)};
  for (const char* name : {"batch_x", "batch_y"}) {
    if (c.given(name)) operands.push_back(as_indices(c, c.tensor(name)));
  }
  return {{c.emit("nearest_points", operands), DType::kI32}};
}

}  // namespace

Ints chosen_counts(const Ints& borders, double ratio) {
  Ints counts;
  for (size_t g = 0; g + 1 < borders.size(); ++g) {
    const auto size = static_cast<float>(borders[g + 1] - borders[g]);
    counts.push_back(static_cast<int64_t>(std::ceil(size * static_cast<float>(ratio))));
  }
  return counts;
}

void add_own_rules(Rules& r) {
  r.add("poptorch::print_tensor", print_tensor);
  r.add("poptorch::ctc_beam_search", beam_search);
  r.add("poptorch::farthest_points", farthest_points);
  r.add("poptorch::nearest_points", nearest_points);
}

}  // namespace poptorch::frontend
