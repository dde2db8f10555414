// Handles every operator that the user's forward calls, above autograd in the dispatcher.
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "frontends/torch/tracer/dispatch/autocast.hpp"
#include "frontends/torch/tracer/dispatch/generic.hpp"
#include "frontends/torch/tracer/dispatch/handled.hpp"
#include "frontends/torch/tracer/dispatch/outside.hpp"
#include "frontends/torch/tracer/graph/host_tensors.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/row_checks.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using c10::IValue;
using support::str;
using support::UserError;
using torch::jit::Stack;

at::Tensor new_tensor(const Handled& h, const TensorValue& value) {
  if (!value) return {};
  if (ir::element_count(value.shape()) == 0) {
    return h.tracer.make_empty(value.shape(), torch_dtype(value.dtype));
  }
  return h.tracer.make_tensor(value.value, torch_dtype(value.dtype));
}

void overwrite(const Handled& h, const at::Tensor& tensor, const TensorValue& value) {
  if (tensor.numel() == 0 && ir::element_count(value.shape()) == 0) return;
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

// Returns whether the operator's results are the arguments that it writes. Other operators that
// write (batch norms write their statistics) return new tensors, and their rows do the writes.
bool returns_written(const Handled& h) {
  if (h.info.writes.empty()) return false;
  const auto& returns = h.op.schema().returns();
  return returns.empty() || returns[0].alias_info();
}

// Writes the functional results into the written arguments of an in-place or out= operator, and
// returns these.
Results write_back(const Handled& h, const std::vector<TensorValue>& values) {
  Results results;
  for (size_t i = 0; i < h.info.writes.size(); ++i) {
    const at::Tensor& tensor = h.arguments[h.info.writes[i]].toTensor();
    overwrite(h, tensor, values.at(i));
    if (i < h.op.schema().returns().size()) results.push_back(tensor);
  }
  return results;
}

// Returns whether the call takes or requests complex numbers. The IR only carries them; torch
// computes with them.
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

bool is_empty(const IValue& argument) {
  if (argument.isTensor()) return argument.toTensor().defined() && argument.toTensor().numel() == 0;
  if (!argument.isList() || argument.isIntList() || argument.isDoubleList()) return false;
  const auto items = argument.toListRef();
  return std::any_of(items.begin(), items.end(), [](const IValue& item) { return is_empty(item); });
}

// Returns whether the call takes a tensor without elements or requests one by size. No row receives
// such a call.
bool concerns_empty(const Handled& h) {
  if (h.info.functional == "cat") return false;  // its row leaves them out
  if (h.call.given("size")) {
    const ir::Ints size = h.call.ints("size");
    if (std::find(size.begin(), size.end(), 0) != size.end()) return true;
  }
  return std::any_of(h.arguments.begin(), h.arguments.end(), is_empty);
}

// Returns no values if the row does not cover the call, or not operands of these types. A row may
// fail on arguments that torch refuses: the generic op then raises torch's own error.
std::vector<TensorValue> by_row(const Handled& h) {
  check_dims_of_scalar(h);
  try {
    return (*h.info.rule)(h.call);
  } catch (const ir::OperandTypeError&) {
    h.call.widen({});
    return {};
  } catch (const std::logic_error&) {  // an index outside of a vector, or a negative size
    h.call.widen({});
    return {};
  }
}

// Warns that a float64 result has the precision of float32. Conversions and calls that name a dtype
// do not warn.
void warn_of_float64(const Handled& h, const std::vector<TensorValue>& values) {
  const bool is_double = std::any_of(values.begin(), values.end(), [](const TensorValue& value) {
    return value && value.dtype == ir::DType::kF64;
  });
  if (!is_double || h.info.functional == "_to_copy" || h.call.index_of("dtype") != Call::kNone)
    return;
  h.tracer.warn_once(
      str("[", h.info.name, "] float64 is computed in float32 on the device", h.tracer.place()));
}

std::vector<TensorValue> by_generic_op(const Handled& h) {
  if (!h.info.writes.empty() && !returns_written(h)) {
    h.call.unsupported_op(
        "It writes arguments and also returns other tensors, which a generic op cannot do.");
  }
  auto values = emit_generic(h.tracer, h.op, h.info, h.arguments, h.call);
  if (h.info.is_loss) {
    const ir::Attrs mark{{"reduction", "none"}, {"of", h.call.name()}};
    values[0].value = h.call.emit("identity_loss", {values[0].value}, mark).value;
  }
  return values;
}

// Returns the results of the operator's row or, if the row does not cover the call, of the generic
// op. Returns no values if torch must compose the operator of others instead.
std::vector<TensorValue> values_of(const Handled& h) {
  try {
    if (h.info.rule && !is_complex(h) && !concerns_empty(h)) {
      auto values = by_row(h);
      if (!values.empty() || h.info.is_composite) return values;
    }
    return by_generic_op(h);
  } catch (const DynamicShapeError& error) {  // later ops would not fit a stand-in
    const auto behind = buffers_behind(h.tracer, h.arguments.slice(1));
    throw DynamicShapeError(error.what() + behind, error.where());
  } catch (const support::UnsupportedError& error) {
    auto values = stand_ins(h.op, h.info, h.arguments, h.call);
    if (!values) throw;
    std::vector<const ir::Value*> made;
    for (const TensorValue& value : *values) made.push_back(value.value);
    h.tracer.refuse(h.call.name(), error, made);
    return *std::move(values);
  }
}

// Returns nullopt if torch's own composition must run instead.
std::optional<Results> compute(const Handled& h) {
  const std::vector<TensorValue> values = values_of(h);
  if (values.empty()) return std::nullopt;
  warn_of_float64(h, values);
  if (returns_written(h)) return write_back(h, values);
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

std::optional<Results> data_dependent(const Handled& h) {
  if (auto known = by_known_values(h)) return known;
  if (h.info.rule) return compute(h);
  refuse_dynamic_shape(h, h.arguments[0]);
}

bool makes_sparse(const OpInfo& info) {
  static const std::set<std::string> makers{"aten::_sparse_coo_tensor_with_dims_and_tensors",
                                            "aten::sparse_compressed_tensor", "aten::_to_sparse",
                                            "aten::_to_sparse_csr", "aten::_to_sparse_csc"};
  return makers.contains(info.name);
}

// Returns a host tensor if the numbers are known, like the sparse tensors that modules hold.
std::optional<Results> sparse(const Handled& h) {
  auto results = results_on_host(h);
  return results ? std::move(results) : compute(h);
}

// Returns whether the operator moves host tensors to the device, makes or draws numbers there, or
// only uses a tensor's shape and type.
bool moves_host_tensors(const OpInfo& info) {
  return info.functional == "_to_copy" || info.functional == "copy" ||
         info.functional == "lift_fresh" || info.functional == "lift" || is_factory(info) ||
         info.is_random;
}

// Sets the dtype of sums and products to that of their out= tensor if the call does not name one,
// as torch does.
void take_type_of_out(const c10::OperatorHandle& op, const OpInfo& info, Results& arguments) {
  static const std::set<std::string> sums{"sum", "prod", "nansum", "cumsum", "cumprod"};
  if (info.writes.size() != 1 || info.writes[0] == 0 || !sums.contains(info.functional)) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (op.schema().arguments()[i].name() != "dtype" || !arguments[i].isNone()) continue;
    arguments[i] = static_cast<int64_t>(arguments[info.writes[0]].toTensor().scalar_type());
  }
}

bool handled_here(const OpInfo& info) {
  if (special_handler(info) || recurrent_cell(info) || info.rule || info.functional == "to") {
    return true;
  }
  if (info.is_composite) return false;
  return info.has_tensor_results || !info.writes.empty();
}

// Returns whether the tracer took the operator; if not, the stack is unchanged.
bool dispatch(Tracer& tracer, const c10::OperatorHandle& op, const OpInfo& info, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  Results arguments = torch::jit::last(*stack, count).vec();
  apply_autocast(info.functional, arguments);
  take_type_of_out(op, info, arguments);
  tracer.enter_call();
  tracer.set_moves_host(moves_host_tensors(info));
  settle_masks(tracer, info, arguments);
  TorchCall call(tracer, op.schema(), arguments);
  const Handled handled{tracer, op, info, arguments, call};
  refuse_nested(handled);
  settle_device(handled);
  const Handler* special = special_handler(info);
  const CellComposer* cell = recurrent_cell(info);
  const auto renamed = view_of_place(op, info);
  std::optional<Results> results = special                      ? (*special)(handled)
                                   : cell                       ? (*cell)(handled)
                                   : renamed                    ? view_in_place(handled, *renamed)
                                   : info.functional == "to"    ? unconverted(handled)
                                   : info.is_view && !info.rule ? view(handled)
                                   : info.data_dependent        ? data_dependent(handled)
                                   : makes_sparse(info)         ? sparse(handled)
                                                                : compute(handled);
  tracer.note_new_ops();
  tracer.set_moves_host(false);
  if (!results) return false;
  torch::jit::drop(*stack, count);
  for (IValue& result : *results) stack->push_back(std::move(result));
  return true;
}

// Returns whether the tracer took the operator.
bool take(Tracer& tracer, const c10::OperatorHandle& op, const OpInfo& info, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  auto results = by_sparse_constants(tracer, op, info, torch::jit::last(*stack, count));
  if (!results) return handled_here(info) && dispatch(tracer, op, info, stack);
  torch::jit::drop(*stack, count);
  for (IValue& result : *results) stack->push_back(std::move(result));
  return true;
}

// Throws a Kind at `where`, and adds the user's line if `text` lacks it. The tracer remembers the
// error with `end` added, for the case that the model does not catch it and the trace ends.
template <typename Kind>
[[noreturn]] void raise(Tracer& tracer, std::string text, const std::source_location& where,
                        const char* end = "") {
  const std::string place = tracer.place();
  if (text.find(place) == std::string::npos) text += place;
  tracer.remember(std::make_exception_ptr(Kind(text + end, where)), text);
  throw Kind(text, where);
}

void handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER,
                                       c10::DispatchKey::DeferredInit);
  Tracer* tracer = Tracer::current();
  if (!tracer) refuse_outside(op, *stack);
  const OpInfo* info = tracer ? &info_of(op) : nullptr;
  if (info && run_on_host(*tracer, op, *info, stack)) return;
  if (!info) {
    op.redispatchBoxed(keys & kBelow, stack);
    return;
  }
  try {
    if (take(*tracer, op, *info, stack)) return;
  } catch (const c10::Error& error) {
    // Keeps torch's text, as in eager mode.
    raise<UserError>(*tracer, str("[", info->name, "] ", with_remedy(error)),
                     std::source_location::current());
  } catch (const ValueNeededError& error) {
    raise<UserError>(*tracer, error.what(), error.where(), kBehindEnd);
  } catch (const UserError& error) {
    raise<UserError>(*tracer, error.what(), error.where());
  } catch (const support::UnsupportedError& error) {
    raise<support::UnsupportedError>(*tracer, error.what(), error.where(), kBehindEnd);
  } catch (const support::Error& error) {
    tracer->remember(std::current_exception(), error.what());
    throw;
  }
  try {
    op.redispatchBoxed(keys & kBelow, stack);
  } catch (const c10::IndexError& error) {  // of an operator that torch composes of others
    raise<UserError>(*tracer, str("[", info->name, "] ", with_remedy(error)),
                     std::source_location::current());
  }
}

at::Tensor eager_checkpoint(const at::Tensor& x) { return x.clone(); }

at::Tensor eager_overlap(const at::Tensor& x, const std::string&, const std::string&) {
  return x.clone();
}

at::Tensor eager_product(const at::Tensor& a, const at::Tensor& b, const std::string&, int64_t) {
  return a.matmul(b);
}

// Implements poptorch.identity_loss in eager mode, where it is an identity or a reduction. The
// tracer has a row for it.
at::Tensor eager_identity_loss(const at::Tensor& x, const std::string& reduction) {
  if (reduction == "none") return x.clone();
  return reduction == "sum" ? x.sum() : x.mean();
}

// Opens a scope in the running trace, if there is one.
void push_name_scope(const std::string& name) {
  if (Tracer* tracer = Tracer::current()) tracer->push_scope(name);
}

void pop_name_scope() {
  if (Tracer* tracer = Tracer::current()) tracer->pop_scope();
}

// Records a feature that the Python part of the trace does not support. The trace continues without
// it.
void refuse(const std::string& what, const std::string& why) {
  if (Tracer* tracer = Tracer::current()) {
    tracer->refuse(what, support::UnsupportedError(why), {});
  }
}

// Records that the Python part raised the error `why`, unless the remembered error is its cause.
void end_trace(const std::string& why) {
  Tracer* tracer = Tracer::current();
  if (tracer && !tracer->is_cause_of(why)) tracer->remember(nullptr, why);
}

}  // namespace

TORCH_LIBRARY(poptorch, m) {
  m.def("recomputation_checkpoint(Tensor x) -> Tensor", eager_checkpoint);
  m.def("set_overlap(Tensor x, str host, str loop) -> Tensor", eager_overlap);
  m.def("serialized_matmul(Tensor a, Tensor b, str serial, int parts) -> Tensor", eager_product);
  m.def("identity_loss(Tensor x, str reduction) -> Tensor", eager_identity_loss);
  m.def("push_name_scope(str name) -> ()", push_name_scope);
  m.def("pop_name_scope() -> ()", pop_name_scope);
  m.def("refuse(str what, str why) -> ()", refuse);
  m.def("end_trace(str why) -> ()", end_trace);
}

TORCH_LIBRARY_IMPL(poptorch, DeferredInit, m) {
  m.impl("push_name_scope", push_name_scope);
  m.impl("pop_name_scope", pop_name_scope);
  m.impl("refuse", refuse);
  m.impl("end_trace", end_trace);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&handle>());
}

}  // namespace poptorch::frontend
