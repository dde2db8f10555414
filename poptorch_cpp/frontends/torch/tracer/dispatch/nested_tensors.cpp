// Refuses nested tensors: a tensor of the device has one shape. Declared in handled.hpp.
#include <algorithm>

#include "frontends/torch/tracer/dispatch/handled.hpp"

namespace poptorch::frontend {
namespace {

bool is_nested(const c10::IValue& argument) {
  if (argument.isTensor()) return argument.toTensor().defined() && argument.toTensor().is_nested();
  if (!argument.isTensorList()) return false;
  const auto items = argument.toTensorVector();
  return std::any_of(items.begin(), items.end(),
                     [](const at::Tensor& item) { return item.defined() && item.is_nested(); });
}

}  // namespace

void refuse_nested(const Handled& h) {
  const bool makes_nested = h.info.name.starts_with("aten::_nested_");
  if (!makes_nested && std::none_of(h.arguments.begin(), h.arguments.end(), is_nested)) return;
  h.call.unsupported(
      "nested tensors are not supported. Pad the sequences on the host with "
      "torch.nested.to_padded_tensor, and pass their lengths or a mask.");
}

}  // namespace poptorch::frontend
