#include "frontends/torch/tracer/dispatch/outside.hpp"

#include <algorithm>
#include <utility>

#include "frontends/torch/tracer/values/types.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

std::function<void(const support::Error&)> raise_outside;

bool is_of_a_trace(const c10::IValue& value) {
  if (value.isTensor()) return is_dataless(value.toTensor());
  if (!value.isTensorList()) return false;
  const auto tensors = value.toTensorVector();
  return std::any_of(tensors.begin(), tensors.end(), is_dataless);
}

std::string shape_of(const c10::IValue& value) {
  if (!value.isTensor()) return "";
  return support::str(" of shape ", ir::shape_text(value.toTensor().sizes().vec()));
}

}  // namespace

void refuse_outside(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
  const auto kept = std::find_if(arguments.begin(), arguments.end(), is_of_a_trace);
  if (kept == arguments.end()) return;
  const support::UserError error(
      support::str("[tracer] ", op.schema().name(), " uses a tensor", shape_of(*kept),
                   " that the forward of a wrapped model made, after forward has ended: it has no "
                   "values. Return it from forward, and use the result of the wrapper's call."));
  if (raise_outside) raise_outside(error);
  throw error;
}

void set_raise_outside(std::function<void(const support::Error&)> raise) {
  raise_outside = std::move(raise);
}

}  // namespace poptorch::frontend
