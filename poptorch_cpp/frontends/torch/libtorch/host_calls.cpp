// Host calls in the middle of a program: custom ops of this process that call the user's functions.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/types.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "frontends/torch/aten/call.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "include/poptorch/custom_op_abi.hpp"
#include "include/poptorch/ops.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {
namespace {

using frontend::narrow;
using support::str;
using support::UserError;

constexpr const char* kDomain = "cpu";

// Is never destroyed: executables keep pointers to it.
struct HostOp {
  Body layer;
  std::string name;
  PoptorchCustomOp table{};
};

thread_local bool is_inside = false;

Tensors call(const Body& layer, const Tensors& inputs) {
  if (is_inside) {
    throw UserError("Trying to enter CPU from another CPU op! CPU ops must not overlap.");
  }
  const c10::impl::ExcludeDispatchKeyGuard untraced(c10::DispatchKey::DeferredInit);
  const at::NoGradGuard no_gradient;
  struct Inside {
    Inside() { is_inside = true; }
    ~Inside() { is_inside = false; }
  } inside;
  return layer(inputs);
}

at::TensorOptions options_of(const PoptorchCustomType& type) {
  return at::TensorOptions().dtype(frontend::torch_dtype(static_cast<ir::DType>(type.dtype)));
}

at::IntArrayRef shape_of(const PoptorchCustomType& type) {
  return {type.shape, static_cast<size_t>(type.rank)};
}

template <typename Work>
int32_t told(char* error, size_t size, const Work& work) {
  try {
    work();
    return 0;
  } catch (const c10::Error& failure) {
    std::snprintf(error, size, "%s", failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    std::snprintf(error, size, "%s", failure.what());
  }
  return 1;
}

int32_t infer(void* self, const PoptorchCustomCall* use,
              void (*give)(void*, const PoptorchCustomType*), void* to, char* error, size_t size) {
  return told(error, size, [&] {
    const c10::impl::ExcludeDispatchKeyGuard untraced(c10::DispatchKey::DeferredInit);
    Tensors zeros;
    for (int32_t i = 0; i < use->input_count; ++i) {
      zeros.push_back(at::zeros(shape_of(use->inputs[i]), options_of(use->inputs[i])));
    }
    for (const at::Tensor& made : call(static_cast<HostOp*>(self)->layer, zeros)) {
      const ir::DType dtype = narrow(frontend::ir_dtype(made.scalar_type()));
      const PoptorchCustomType type{static_cast<int32_t>(dtype), static_cast<int32_t>(made.dim()),
                                    made.sizes().data()};
      give(to, &type);
    }
  });
}

int32_t compute(void* self, const PoptorchCustomCall* use, char* error, size_t size) {
  return told(error, size, [&] {
    Tensors inputs;
    for (int32_t i = 0; i < use->input_count; ++i) {
      const PoptorchCustomType& type = use->inputs[i];
      // Copies the buffer, so that the layer may keep it.
      inputs.push_back(at::from_blob(use->buffers[i], shape_of(type), options_of(type)).clone());
    }
    const Tensors results = call(static_cast<HostOp*>(self)->layer, inputs);
    if (results.size() != static_cast<size_t>(use->output_count)) {
      throw UserError(str("it gave ", results.size(), " tensors, but ", use->output_count,
                          " on zeros. Give the same number each time."));
    }
    for (int32_t i = 0; i < use->output_count; ++i) {
      const PoptorchCustomType& type = use->outputs[i];
      const at::Tensor& made = results[i];
      if (made.sizes() != shape_of(type)) {
        throw UserError(str("result ", i, " has the shape ", ir::shape_text(made.sizes().vec()),
                            ", but on zeros it had ", ir::shape_text(shape_of(type).vec()),
                            ". Shapes must stay as they were at compilation."));
      }
      const at::Tensor dense = made.to(options_of(type)).contiguous();
      std::memcpy(use->buffers[use->input_count + i], dense.data_ptr(), dense.nbytes());
    }
  });
}

// Registers the layer as an op of `inputs` and returns the op's name.
const std::string& registered(const Body& layer, const std::string& id, const Tensors& inputs) {
  static std::atomic<int> count = 0;
  Tensors zeros;
  {
    const c10::impl::ExcludeDispatchKeyGuard untraced(c10::DispatchKey::DeferredInit);
    for (const at::Tensor& input : inputs) {
      const auto dtype = frontend::torch_dtype(narrow(frontend::ir_dtype(input.scalar_type())));
      zeros.push_back(at::zeros(input.sizes(), at::TensorOptions().dtype(dtype)));
    }
  }
  const size_t outputs = call(layer, zeros).size();
  auto& op = *new HostOp{layer, str("CPU.", id, ".", count++)};
  op.table.abi = POPTORCH_CUSTOM_OP_ABI;
  op.table.version = 1;
  op.table.domain = kDomain;
  op.table.name = op.name.c_str();
  op.table.self = &op;
  op.table.input_count = static_cast<int32_t>(inputs.size());
  op.table.output_count = static_cast<int32_t>(outputs);
  op.table.infer = infer;
  op.table.compute = compute;
  poptorch_register_custom_op(&op.table);
  return op.name;
}

}  // namespace

CPU::CPU(Body layer, std::string id) : layer_(std::move(layer)), id_(std::move(id)) {
  if (!layer_) throw UserError("[CPU] there is nothing to call.");
}

Tensors CPU::operator()(const Tensors& inputs) const {
  const auto* tracer = frontend::Tracer::current();
  const bool is_traced =
      tracer && !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::DeferredInit);
  if (!is_traced) return is_inside ? call(layer_, inputs) : layer_(inputs);
  if (tracer->training()) {
    throw UserError(str("[CPU] '", id_, "' is in a model for training", tracer->place(),
                        ": no gradient passes through it. Declare an op with one: "
                        "poptorch/custom_op.hpp."));
  }
  return custom_op(inputs, registered(layer_, id_, inputs), kDomain, 1);
}

}  // namespace poptorch
