// Also defines the functions of Tracer that concern host tensors.
#include "frontends/torch/tracer/graph/host_tensors.hpp"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "frontends/torch/tracer/values/types.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

thread_local std::unordered_set<const void*> for_device;

// torch.tensor and similar functions end with these ops: they make tensors for the device.
const std::set<std::string> kMakers{"aten::lift", "aten::lift_fresh"};

const std::set<std::string> kFactories{"arange",   "empty", "full",  "full_like",  "linspace",
                                       "logspace", "ones",  "rand",  "randint",    "randn",
                                       "randperm", "range", "zeros", "zeros_like", "normal"};

std::vector<at::Tensor> tensors_of(c10::ArrayRef<c10::IValue> arguments) {
  std::vector<at::Tensor> result;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) result.push_back(argument.toTensor());
    if (!argument.isList() || argument.isIntList() || argument.isDoubleList()) continue;
    for (const c10::IValue& item : argument.toListRef()) {
      if (item.isTensor()) result.push_back(item.toTensor());
    }
  }
  std::erase_if(result, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return result;
}

// Returns true if the `device` argument names a device other than the host.
bool goes_elsewhere(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (op.schema().arguments()[i].name() != "device" || arguments[i].isNone()) continue;
    return !arguments[i].toDevice().is_cpu();
  }
  return false;
}

}  // namespace

bool is_factory(const OpInfo& info) { return kFactories.contains(info.functional); }

bool run_on_host(Tracer& tracer, const c10::OperatorHandle& op, const OpInfo& info,
                 torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const auto arguments = torch::jit::last(*stack, count);
  const auto tensors = tensors_of(arguments);
  const auto is_of_host = [&](const at::Tensor& tensor) { return tracer.is_of_host(tensor); };
  if (std::none_of(tensors.begin(), tensors.end(), is_of_host)) return false;
  if (kMakers.contains(info.name) || goes_elsewhere(op, arguments)) return false;
  if ((is_factory(info) || info.is_random) && info.writes.empty()) return false;
  std::unordered_map<size_t, at::Tensor> values;
  if (!std::all_of(tensors.begin(), tensors.end(), is_of_host)) {
    if (info.writes.empty() || !is_of_host(arguments[info.writes[0]].toTensor())) return false;
    for (size_t i = 0; i < count; ++i) {
      if (!arguments[i].isTensor() || !is_dataless(arguments[i].toTensor())) continue;
      if (auto known = tracer.known(arguments[i].toTensor())) values.emplace(i, *known);
    }
    const auto of_trace = std::count_if(tensors.begin(), tensors.end(), std::not_fn(is_of_host));
    if (static_cast<size_t>(of_trace) != values.size()) return false;
  }
  for (const auto& [i, value] : values) (*stack)[stack->size() - count + i] = value;
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::DeferredInit);
  op.callBoxed(stack);
  return true;
}

void note_for_device(const at::Tensor& tensor) { for_device.insert(tensor.storage().data()); }

bool was_for_device(const at::Tensor& tensor) {
  return for_device.erase(tensor.storage().data()) > 0;
}

void forget_for_device() { for_device.clear(); }

bool Tracer::is_of_host(const at::Tensor& tensor) const {
  if (request_.without_python || !tensor.device().is_cpu() || is_dataless(tensor)) return false;
  if (!tensor.has_storage()) return true;
  return !frozen_.contains(tensor.storage().unsafeGetStorageImpl()) && !memory_.holds(tensor);
}

void Tracer::freeze(const std::vector<at::Tensor>& members) {
  for (const at::Tensor& member : members) {
    if (!member.has_storage() || is_dataless(member)) continue;
    frozen_.insert(member.storage().unsafeGetStorageImpl());
    if (!member.device().is_cpu()) continue;  // state, or known by another name
    lent_.push_back({"", member, member.device(), member.dtype(), member.storage()});
    report_device(member, ipu_device());
  }
}

at::Tensor of_cpu(const at::Tensor& tensor) {
  if (tensor.device() != ipu_device()) return tensor;
  const PauseGuard pause;
  at::Tensor alias = tensor.detach();
  report_device(alias, c10::kCPU);
  return alias;
}

std::optional<at::Tensor> Tracer::known(const at::Tensor& tensor) {
  if (is_of_host(tensor)) return tensor;
  if (!memory_.find(tensor) && !is_dataless(tensor)) return of_cpu(tensor);  // a member
  const ir::Literal* literal = known_values_.of(read(tensor));
  if (!literal) return std::nullopt;
  const PauseGuard pause;
  return tensor_of(*literal).to(tensor.scalar_type());
}

std::optional<bool> Tracer::expected(const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kBool || tensor.numel() != 1) return std::nullopt;
  ir::Value* value = read(tensor);
  const ir::Literal* literal = of_finite_.of(value);
  if (!literal) return std::nullopt;
  const bool answer = *literal->data() != std::byte{0};
  builder_.emit("check_answer", {value}, {{"answer", answer}, {"line", place()}});
  warn_once(support::str("forward tests", place(),
                         " whether numbers are finite. The program is compiled for finite numbers, "
                         "and a run with others ends with an error"));
  return answer;
}

void Tracer::refuse_host_tensor(const at::Tensor& tensor) const {
  throw support::UserError(support::str(
      "Expected an IPU tensor but got tensor(device=cpu, shape=",
      ir::shape_text(tensor.sizes().vec()), ", dtype=", c10::toString(tensor.scalar_type()), ")",
      place(),
      ". Make it with torch.tensor, move it with .to(x.device), or make it a buffer or an "
      "attribute of the module."));
}

}  // namespace poptorch::frontend
