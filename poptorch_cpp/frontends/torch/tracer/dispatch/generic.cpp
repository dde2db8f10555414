#include "frontends/torch/tracer/dispatch/generic.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "frontends/torch/tracer/calls/generic_call.hpp"
#include "frontends/torch/tracer/op_facts/trusted_arguments.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

at::Tensor stand_in(const at::Tensor& tensor, c10::DeviceType device) {
  const auto dtype = torch_dtype(narrow(ir_dtype(tensor.scalar_type())));
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  return device == c10::kMeta ? at::empty(tensor.sizes(), options)
                              : at::zeros(tensor.sizes(), options);
}

std::vector<at::Tensor> infer_on_meta(const GenericCall& call,
                                      const std::vector<at::Tensor>& operands) {
  PauseGuard pause;
  std::vector<at::Tensor> metas;
  for (const auto& operand : operands) metas.push_back(stand_in(operand, c10::kMeta));
  return call.run(metas);
}

// Returns tensors with the shapes and dtypes of the results. They come from a run on zeros or, if
// that raises an error, from torch's shape functions. Returns nullopt if torch has no kernel; other
// errors are those of eager mode.
std::optional<std::vector<at::Tensor>> infer(const GenericCall& call,
                                             const std::vector<at::Tensor>& operands) {
  PauseGuard pause;
  std::vector<at::Tensor> zeros;
  for (const auto& operand : operands) zeros.push_back(stand_in(operand, c10::kCPU));
  fit_stand_ins(call.schema(), zeros);
  try {
    return call.run(zeros);
  } catch (const c10::IndexError&) {
    throw;  // not every shape function checks dimensions
  } catch (const c10::Error& error) {
    try {
      return infer_on_meta(call, operands);
    } catch (const std::exception&) {
    }
    if (dynamic_cast<const c10::NotImplementedError*>(&error)) return std::nullopt;
    throw;
  }
}

// Returns the dtypes of results, with `floats` for float32.
std::vector<c10::ScalarType> dtypes_of(const std::vector<at::Tensor>& results,
                                       c10::ScalarType floats) {
  std::vector<c10::ScalarType> dtypes;
  for (const at::Tensor& result : results) {
    const c10::ScalarType dtype = result.scalar_type();
    dtypes.push_back(dtype == at::kFloat ? floats : dtype);
  }
  return dtypes;
}

// Returns whether halves are computed in float32, since torch's kernels for halves take several
// times as long: not if they are only moved, if the result depends on the precision, or in
// operators of other libraries, which may take halves alone.
bool computes_in_f32(const c10::OperatorHandle& op, const OpInfo& info) {
  return info.name.starts_with("aten::") && info.name != "aten::nextafter" &&
         !op.hasTag(at::Tag::view_copy);
}

// Makes constants of results that the device need not compute, as the host has their values.
std::vector<TensorValue> constants_of(Tracer& tracer, const std::vector<at::Tensor>& results) {
  PauseGuard pause;
  std::vector<TensorValue> values;
  for (const at::Tensor& result : results) {
    values.push_back(
        {tracer.builder().constant(literal_of(result)), ir_dtype(result.scalar_type())});
  }
  return values;
}

std::vector<at::Tensor> run_on_host(const GenericCall& generic) {
  PauseGuard pause;
  return generic.run({});
}

}  // namespace

std::vector<TensorValue> emit_generic(Tracer& tracer, const c10::OperatorHandle& op,
                                      const OpInfo& info, c10::ArrayRef<c10::IValue> arguments,
                                      TorchCall& call) {
  if (info.is_random) {
    call.unsupported_op(
        "Its random numbers would come from torch's generator, which is not the device's. "
        "Compose them from rand, randn, bernoulli or dropout.");
  }
  std::vector<at::Tensor> operands;
  GenericCall generic = GenericCall::of(op, arguments, operands);
  if (operands.empty()) return constants_of(tracer, run_on_host(generic));
  auto inferred = infer(generic, operands);
  std::vector<c10::ScalarType> dtypes =
      inferred ? dtypes_of(*inferred, at::kFloat) : std::vector<c10::ScalarType>();
  const auto half = std::find_if(operands.begin(), operands.end(), is_half);
  if (half != operands.end() && (!inferred || computes_in_f32(op, info))) {
    const c10::ScalarType narrowed = half->scalar_type();
    operands.clear();
    generic = GenericCall::of(op, arguments, operands, true);
    inferred = infer(generic, operands);
    if (inferred && dtypes.empty()) dtypes = dtypes_of(*inferred, narrowed);
  }
  if (!inferred) {
    call.unsupported_op("It has no CPU kernel that the device could use.");
  }
  std::vector<at::Tensor>& results = *inferred;
  const bool all_empty = std::all_of(results.begin(), results.end(), [](const at::Tensor& result) {
    return result.defined() && result.numel() == 0;
  });
  if (all_empty) {
    for (size_t i = 0; i < results.size(); ++i) results[i] = results[i].to(dtypes[i]);
    return constants_of(tracer, results);
  }
  std::vector<ir::Value*> values;
  for (const auto& operand : operands) values.push_back(tracer.read(operand));
  std::vector<ir::Type> types;
  std::vector<TensorValue> out;
  for (const auto& result : results) {
    if (!result.defined()) call.unsupported("an undefined result of a generic op.");
    if (result.layout() != at::kStrided) {
      call.unsupported("its result is sparse, and the device's tensors are dense. Keep it dense.");
    }
    if (result.scalar_type() == at::kUInt64) {
      call.unsupported("its result needs integers of 64 bits, and the device has 32.");
    }
    types.push_back({narrow(ir_dtype(result.scalar_type())), result.sizes().vec()});
  }
  ir::Op* made = tracer.builder().emit(
      "aten", values, {{"schema", generic.schema()}, {"arguments", generic.arguments()}}, types);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto dtype = ir_dtype(dtypes[i]);
    const bool narrows = dtypes[i] != results[i].scalar_type();
    out.push_back({narrows ? call.cast(made->result(i), dtype).value : made->result(i), dtype});
  }
  return out;
}

std::optional<std::vector<TensorValue>> stand_ins(const c10::OperatorHandle& op, const OpInfo& info,
                                                  c10::ArrayRef<c10::IValue> arguments,
                                                  TorchCall& call) {
  std::vector<TensorValue> values;
  try {
    std::vector<at::Tensor> operands;
    const GenericCall generic = GenericCall::of(op, arguments, operands);
    // A run on meta tensors does not advance torch's generator.
    const auto results =
        info.is_random ? std::optional(infer_on_meta(generic, operands)) : infer(generic, operands);
    if (!results) return std::nullopt;
    for (const at::Tensor& result : *results) {
      const ir::DType dtype = ir_dtype(result.scalar_type());
      // A random number, because its value does not count as known.
      const Val unknown =
          call.emit("random_uniform", {},
                    {{"shape", Ints{}}, {"low", 0.0}, {"high", 1.0}, {"dtype", DType::kF32}});
      values.push_back({call.broadcast(call.cast(unknown, dtype), result.sizes().vec()), dtype});
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return values;
}

}  // namespace poptorch::frontend
