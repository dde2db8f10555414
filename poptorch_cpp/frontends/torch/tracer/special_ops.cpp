// Operators that are not computations: reads of values, comparisons of tensors, constants, detach_;
// and the device that factories are asked for.
#include <set>
#include <unordered_map>

#include "frontends/torch/tracer/handled.hpp"
#include "frontends/torch/tracer/host_tensors.hpp"
#include "frontends/torch/tracer/types.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;
using support::UserError;

Results value_needed(const Handled& h) {
  throw UserError(str("[", h.info.name, "] the value of a tensor is needed on the host",
                      h.tracer.place(),
                      ", but it is not known while the model is traced. Keep .item(), `if tensor:` "
                      "and other reads of values out of forward; use torch.where for a choice."));
}

Results backward_inside(const Handled& h) {
  h.call.unsupported(
      "gradients inside forward are not supported. Return the loss; the training step adds the "
      "backward pass.");
}

Results same_tensor(const Handled& h) {
  const at::Tensor &a = h.arguments[0].toTensor(), &b = h.arguments[1].toTensor();
  if (a.sizes() != b.sizes()) return {false};
  if (h.tracer.read(a) == h.tracer.read(b)) return {true};
  // torch::nn::MultiheadAttention asks whether its arguments are one tensor. Both answers compute
  // the same.
  if (h.tracer.without_python()) return {false};
  return value_needed(h);
}

// torch.tensor(...) ends here: its data becomes a constant of the graph.
Results lifted(const Handled& h) {
  const at::Tensor& tensor = h.arguments[0].toTensor();
  if (is_dataless(tensor)) return {tensor};
  if (!was_for_device(tensor)) {
    h.tracer.warn_once("No device set in torch.tensor(): forcing to IPU");
  }
  accept_host_tensor(tensor);
  return {h.tracer.make_tensor(h.tracer.read(tensor), tensor.scalar_type())};
}

Results cut_in_place(const Handled& h) {
  const at::Tensor& tensor = h.arguments[0].toTensor();
  tensor.unsafeGetTensorImpl()->set_requires_grad(false);
  if (History* history = h.tracer.root_of(tensor).history_of(tensor)) history->remove(tensor);
  return {tensor};
}

Results nothing(const Handled&) { return {}; }

Results unchecked(const Handled& h) {
  h.tracer.warn_once(str(
      "torch.linalg", h.tracer.place(),
      " does not check its matrices on the device: where eager torch raises an error (singular, "
      "not positive definite), the result has nan or infinity"));
  return {};
}

const std::unordered_map<std::string, Handler>& handlers() {
  static const std::unordered_map<std::string, Handler> rows{
      {"aten::item", value_needed},
      {"aten::_local_scalar_dense", value_needed},
      {"aten::is_nonzero", value_needed},
      {"aten::allclose", value_needed},
      {"aten::equal", same_tensor},
      {"aten::_backward", backward_inside},
      {"aten::lift_fresh", lifted},
      {"aten::lift", lifted},
      {"aten::detach_", cut_in_place},
      {"aten::_assert_async", nothing},
      {"aten::_linalg_check_errors", unchecked},
  };
  return rows;
}

const std::set<std::string>& factories() {
  static const std::set<std::string> names{"arange",   "empty", "full",  "full_like",  "linspace",
                                           "logspace", "ones",  "rand",  "randint",    "randn",
                                           "randperm", "range", "zeros", "zeros_like", "normal"};
  return names;
}

}  // namespace

const Handler* special_handler(const std::string& name) {
  const auto found = handlers().find(name);
  return found == handlers().end() ? nullptr : &found->second;
}

void settle_device(const Handled& h) {
  if (h.info.name == "aten::_to_copy") {
    accept_host_tensor(h.arguments[0].toTensor());
  } else if (factories().contains(h.info.functional)) {
    const size_t device = h.call.index_of("device");
    // Python fills in the CPU where the user names no device.
    const bool on_host = device != Call::kNone &&
                         (h.arguments[device].isNone() || h.arguments[device].toDevice().is_cpu());
    if (on_host) {
      h.tracer.warn_once(str("No device set in torch.", h.info.functional, "(): forcing to IPU"));
    }
  }
}

}  // namespace poptorch::frontend
