// Declares PopTorch's own ops as torch.ops.poptorch, with what they do on the host. In a model the
// tracer has rows for them (aten/own.cpp).
#include <torch/library.h>

#include <string>

namespace poptorch::frontend {
namespace {

at::Tensor print_tensor(const at::Tensor& x, const std::string&, bool, int64_t, int64_t, int64_t,
                        int64_t, const std::string&, const std::string&, const std::string&,
                        const std::string&) {
  return x.clone();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(poptorch, m) {
  m.def(
      "print_tensor(Tensor x, str title, bool print_gradient, int summarise_threshold, "
      "int edge_items, int max_line_width, int digits, str float_format, str separator, "
      "str open_bracket, str close_bracket) -> Tensor",
      print_tensor);
}

}  // namespace poptorch::frontend
