// The dispatcher's handler: every operator that the user's forward calls, above autograd.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <functional>
#include <set>
#include <unordered_map>

#include "frontends/torch/tracer/autocast.hpp"
#include "frontends/torch/tracer/generic.hpp"
#include "frontends/torch/tracer/host_tensors.hpp"
#include "frontends/torch/tracer/op_info.hpp"
#include "frontends/torch/tracer/outside.hpp"
#include "frontends/torch/tracer/torch_call.hpp"
#include "frontends/torch/tracer/tracer.hpp"
#include "frontends/torch/tracer/types.hpp"
#include "frontends/torch/tracer/views.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using c10::IValue;
using support::str;
using support::UserError;
using torch::jit::Stack;

struct Handled {
  Tracer& tracer;
  const c10::OperatorHandle& op;
  const OpInfo& info;
  c10::ArrayRef<IValue> arguments;
  TorchCall& call;
};

using Results = std::vector<IValue>;
using Handler = std::function<Results(const Handled&)>;

// --- operators that are not computations
// ----------------------------------------------------------

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
  if (h.tracer.read(h.arguments[0].toTensor()) == h.tracer.read(h.arguments[1].toTensor())) {
    return {true};
  }
  support::log(support::LogLevel::kWarn,
               str("torch.equal", h.tracer.place(),
                   " is taken as False: values are not known while the model is traced"));
  return {false};
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
  h.tracer.root_of(tensor).drop_handle(tensor);
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

// What concerns the device an operator was asked for. Wherever that is, the IPU is meant.
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

bool is_differentiable(c10::ScalarType dtype) {
  return c10::isFloatingType(dtype) || c10::isComplexType(dtype);
}

// --- views
// ----------------------------------------------------------------------------------------

at::Tensor adopt_view(const Handled& h, const at::Tensor& base, const at::Tensor& result,
                      int64_t index, int64_t& position) {
  Root& root = h.tracer.root_of(base);
  const Geometry geometry = Geometry::of(result);
  if (auto link = link_of_view(h.info.name, h.call, base, result, index, position)) {
    root.add_view(geometry, Geometry::of(base), std::move(link));
  } else if (!root.knows(geometry) && !root.add_strided_view(geometry)) {
    h.call.unsupported("a view of this kind is not supported. Use a copy: reshape, clone or to.");
  }
  root.read(h.tracer.cursor(), geometry);  // emitted here, with the user's line of this view
  report_device(result, ipu_device());
  const bool follows = root.has_handle(base) && at::GradMode::is_enabled() &&
                       h.info.name != "aten::detach" && is_differentiable(result.scalar_type());
  if (follows) {
    root.add_handle(result);
    result.unsafeGetTensorImpl()->set_requires_grad(base.requires_grad());
  }
  return result;
}

Results view(const Handled& h) {
  const at::Tensor base = h.arguments[0].toTensor();
  h.tracer.root_of(base);
  Stack stack(h.arguments.begin(), h.arguments.end());
  {
    PauseGuard pause;
    h.op.callBoxed(stack);
  }
  int64_t position = 0;
  if (stack[0].isTensor()) return {adopt_view(h, base, stack[0].toTensor(), 0, position)};
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : stack[0].toTensorVector()) {
    parts.push_back(adopt_view(h, base, part, static_cast<int64_t>(parts.size()), position));
  }
  return {IValue(parts)};
}

// The operator without its underscore, when it is a view of its first argument.
std::optional<c10::OperatorHandle> view_of_place(const c10::OperatorHandle& op,
                                                 const OpInfo& info) {
  if (!op.hasTag(at::Tag::inplace_view)) return std::nullopt;
  for (const std::string& overload : {info.overload, std::string("int")}) {
    const auto found =
        c10::Dispatcher::singleton().findSchema({"aten::" + info.functional, overload});
    if (found && info_of(*found).is_view) return found;
  }
  return std::nullopt;
}

// unsqueeze_ and its like: the tensor becomes a view of what it was.
Results view_in_place(const Handled& h, const c10::OperatorHandle& functional) {
  const at::Tensor& tensor = h.arguments[0].toTensor();
  h.tracer.root_of(tensor);
  Results arguments = h.arguments.vec();
  {
    PauseGuard pause;
    const at::Tensor before = tensor.alias();
    report_device(before, tensor.device());
    before.unsafeGetTensorImpl()->set_requires_grad(tensor.requires_grad());
    arguments[0] = before;
  }
  TorchCall call(h.tracer, functional.schema(), arguments);
  const at::Tensor after =
      view({h.tracer, functional, info_of(functional), arguments, call})[0].toTensor();
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(after.sizes(), after.strides(),
                                                      after.storage_offset());
  return {tensor};
}

// --- computations
// ---------------------------------------------------------------------------------

at::Tensor new_tensor(const Handled& h, const TensorValue& value) {
  if (!value) return {};
  const bool is_one_of_several = h.op.schema().returns().size() > 1;
  if (is_one_of_several && ir::element_count(value.shape()) == 0) {
    // What this call leaves empty, such as the vectors beside singular values. To read it is
    // refused.
    PauseGuard pause;
    return at::empty(value.shape(), torch_dtype(value.dtype));
  }
  return h.tracer.make_tensor(value.value, torch_dtype(value.dtype));
}

void overwrite(const Handled& h, const at::Tensor& tensor, const TensorValue& value) {
  if (!c10::canCast(torch_dtype(value.dtype), tensor.scalar_type())) {
    h.call.fail(str("a result of dtype ", c10::toString(torch_dtype(value.dtype)),
                    " cannot be written into a tensor of dtype ",
                    c10::toString(tensor.scalar_type()), ". Cast it first."));
  }
  if (value.shape() != tensor.sizes().vec()) {
    h.call.fail(str("a result of shape ", ir::shape_text(value.shape()),
                    " cannot be written into a tensor of shape ",
                    ir::shape_text(tensor.sizes().vec()),
                    ". Use the operator that is not in place."));
  }
  h.tracer.write(tensor, h.call.cast(value.value, ir_dtype(tensor.scalar_type())));
}

// In-place and out= operators: the functional results go into the written arguments.
Results write_back(const Handled& h, const std::vector<TensorValue>& values) {
  Results results;
  for (size_t i = 0; i < h.info.writes.size(); ++i) {
    const at::Tensor& tensor = h.arguments[h.info.writes[i]].toTensor();
    overwrite(h, tensor, values.at(i));
    if (i < h.op.schema().returns().size()) results.push_back(tensor);
  }
  return results;
}

// The IR only carries complex numbers; torch computes with them.
bool is_complex(const Handled& h) {
  if (const size_t dtype = h.call.index_of("dtype"); dtype != Call::kNone && h.call.given(dtype)) {
    if (c10::isComplexType(h.arguments[dtype].toScalarType())) return true;
  }
  for (const IValue& argument : h.arguments) {
    if (argument.isTensor() && argument.toTensor().defined() && argument.toTensor().is_complex()) {
      return true;
    }
  }
  return false;
}

Results compute(const Handled& h) {
  std::vector<TensorValue> values;
  if (h.info.rule && !is_complex(h)) values = (*h.info.rule)(h.call);
  if (values.empty()) values = emit_generic(h.tracer, h.op, h.info, h.arguments, h.call);
  if (!h.info.writes.empty()) return write_back(h, values);
  Results results;
  size_t next = 0;
  for (const auto& result : h.op.schema().returns()) {
    if (result.type()->kind() != c10::TypeKind::ListType) {
      results.push_back(new_tensor(h, values.at(next++)));
      continue;
    }
    std::vector<at::Tensor> parts;
    while (next < values.size()) parts.push_back(new_tensor(h, values[next++]));
    results.push_back(IValue(parts));
  }
  return results;
}

Results data_dependent(const Handled& h) {
  throw support::UnsupportedError(str(
      "Operations using ", h.info.name,
      " are unsupported because the operator's output shape is determined at runtime",
      h.tracer.place(), ". Use operators of static shape, such as torch.where or masked_fill."));
}

bool handled_here(const OpInfo& info) {
  if (handlers().contains(info.name) || info.rule) return true;
  if (info.is_composite) return false;
  return info.has_tensor_results || !info.writes.empty();
}

void dispatch(Tracer& tracer, const c10::OperatorHandle& op, const OpInfo& info, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  Results arguments = torch::jit::last(*stack, count).vec();
  apply_autocast(info.functional, arguments);
  tracer.enter_call();
  TorchCall call(tracer, op.schema(), arguments);
  const Handled handled{tracer, op, info, arguments, call};
  settle_device(handled);
  const auto special = handlers().find(info.name);
  const auto renamed = view_of_place(op, info);
  Results results = special != handlers().end()         ? special->second(handled)
                    : renamed                           ? view_in_place(handled, *renamed)
                    : info.is_view && !info.rule        ? view(handled)
                    : info.data_dependent && !info.rule ? data_dependent(handled)
                                                        : compute(handled);
  tracer.note_new_ops();
  torch::jit::drop(*stack, count);
  for (IValue& result : results) stack->push_back(std::move(result));
}

// Throws Kind with the user's line added where `text` lacks it; the tracer remembers it.
template <typename Kind>
[[noreturn]] void raise(Tracer& tracer, std::string text) {
  const std::string place = tracer.place();
  if (text.find(place) == std::string::npos) text += place;
  Kind error(text);
  tracer.remember(std::make_exception_ptr(error), text);
  throw error;
}

void handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER,
                                       c10::DispatchKey::DeferredInit);
  Tracer* tracer = Tracer::current();
  if (!tracer) refuse_outside(op, *stack);
  const OpInfo* info = tracer ? &info_of(op) : nullptr;
  if (!info || !handled_here(*info)) {
    op.redispatchBoxed(keys & kBelow, stack);
    return;
  }
  try {
    dispatch(*tracer, op, *info, stack);
  } catch (const c10::Error& error) {
    // Torch's own text, as in eager mode.
    raise<UserError>(*tracer, str("[", info->name, "] ", error.what_without_backtrace()));
  } catch (const UserError& error) {
    raise<UserError>(*tracer, error.what());
  } catch (const support::UnsupportedError& error) {
    raise<support::UnsupportedError>(*tracer, error.what());
  } catch (const support::Error& error) {
    tracer->remember(std::current_exception(), error.what());
    throw;
  }
}

at::Tensor eager_checkpoint(const at::Tensor& x) { return x.clone(); }

at::Tensor eager_overlap(const at::Tensor& x, const std::string&, const std::string&) {
  return x.clone();
}

// Eagerly, poptorch.identity_loss is what its name says; the tracer has a row for it.
at::Tensor eager_identity_loss(const at::Tensor& x, const std::string& reduction) {
  if (reduction == "none") return x.clone();
  return reduction == "sum" ? x.sum() : x.mean();
}

}  // namespace

TORCH_LIBRARY(poptorch, m) {
  m.def("recomputation_checkpoint(Tensor x) -> Tensor", eager_checkpoint);
  m.def("set_overlap(Tensor x, str host, str loop) -> Tensor", eager_overlap);
  m.def("identity_loss(Tensor x, str reduction) -> Tensor", eager_identity_loss);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&handle>());
}

}  // namespace poptorch::frontend
