// Handles operators whose arguments are known while the model is traced. Declared in handled.hpp.
#include <algorithm>

#include "frontends/torch/tracer/dispatch/handled.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using c10::IValue;

// Returns the known value of a tensor or of each tensor in a list, and any other argument
// unchanged. Returns nullopt if a value is not known.
std::optional<IValue> with_values(Tracer& tracer, const IValue& argument) {
  if (argument.isTensor()) {
    if (!argument.toTensor().defined()) return argument;
    auto known = tracer.known(argument.toTensor());
    return known ? std::optional<IValue>(*known) : std::nullopt;
  }
  if (!argument.isTensorList()) return argument;
  std::vector<at::Tensor> values;
  for (const at::Tensor& tensor : argument.toTensorVector()) {
    auto known = tracer.known(tensor);
    if (!known) return std::nullopt;
    values.push_back(*known);
  }
  return values;
}

bool is_mask(const at::Tensor& index) {
  return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
}

// Returns whether all places that the mask selects receive the same values: `values` only varies
// along the dimensions of `x` after the mask's. Then a choice per element suffices.
bool is_spread(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& values) {
  auto sizes = values.sizes();
  const auto rest = static_cast<size_t>(x.dim() - mask.dim());
  while (sizes.size() > rest && sizes.front() == 1) sizes = sizes.slice(1);
  return sizes.size() <= rest;
}

}  // namespace

void refuse_dynamic_shape(const Handled& h, const IValue& wanted) {
  throw DynamicShapeError(support::str(
      "Operations using ", h.info.name,
      " are unsupported because the operator's output shape is determined at runtime. Use "
      "operators of static shape, such as torch.where or masked_fill.",
      h.tracer.place(), buffers_behind(h.tracer, wanted)));
}

std::optional<Results> results_on_host(const Handled& h) {
  if (h.info.is_random || !h.info.writes.empty()) return std::nullopt;
  const size_t device = h.call.index_of("device");
  torch::jit::Stack stack;
  for (size_t i = 0; i < h.arguments.size(); ++i) {
    auto known = i == device ? std::optional(IValue()) : with_values(h.tracer, h.arguments[i]);
    if (!known) return std::nullopt;
    stack.push_back(*std::move(known));
  }
  const PauseGuard pause;
  h.op.callBoxed(stack);
  return stack;
}

std::optional<Results> by_known_values(const Handled& h) {
  auto stack = results_on_host(h);
  if (!stack) return std::nullopt;
  for (IValue& result : *stack) {
    if (result.isTensor()) {
      result = h.tracer.make_constant(result.toTensor());
    } else if (result.isTensorList()) {
      std::vector<at::Tensor> parts;
      for (const at::Tensor& part : result.toTensorVector()) {
        parts.push_back(h.tracer.make_constant(part));
      }
      result = parts;
    }
  }
  return stack;
}

void settle_masks(Tracer& tracer, const OpInfo& info, Results& arguments) {
  if (!info.takes_masks) return;
  const auto given = arguments[1].toListRef();
  std::vector<std::optional<at::Tensor>> indices;
  bool changed = false;
  for (const IValue& item : given) {
    const at::Tensor index = item.isTensor() ? item.toTensor() : at::Tensor();
    if (!is_mask(index)) {
      indices.emplace_back(index.defined() ? std::optional(index) : std::nullopt);
      continue;
    }
    const bool writes = arguments.size() > 2;
    if (writes && given.size() == 1 &&
        is_spread(arguments[0].toTensor(), index, arguments[2].toTensor())) {
      return;
    }
    const auto mask = tracer.known(index);
    if (!mask) return;
    std::vector<at::Tensor> places;
    {
      const PauseGuard pause;
      places = mask->nonzero_numpy();
    }
    for (const at::Tensor& place : places) indices.emplace_back(tracer.make_constant(place));
    changed = true;
  }
  if (changed) arguments[1] = IValue(indices);
}

}  // namespace poptorch::frontend
