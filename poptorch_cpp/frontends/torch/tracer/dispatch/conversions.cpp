// Handles conversions to another type, device or memory format that do not change the tensor.
#include <ATen/core/grad_mode.h>
#include <c10/core/MemoryFormat.h>

#include "frontends/torch/tracer/dispatch/handled.hpp"
#include "frontends/torch/tracer/values/types.hpp"

namespace poptorch::frontend {
namespace {

// Returns the argument, or nullptr if the schema lacks it or the call leaves it out.
const c10::IValue* argument(const Handled& h, const char* name) {
  const size_t index = h.call.index_of(name);
  return index == Call::kNone || h.arguments[index].isNone() ? nullptr : &h.arguments[index];
}

c10::ScalarType requested_type(const Handled& h, const at::Tensor& tensor) {
  if (const auto* dtype = argument(h, "dtype")) return dtype->toScalarType();
  if (const auto* other = argument(h, "other")) return other->toTensor().scalar_type();
  return tensor.scalar_type();
}

bool has_format(const at::Tensor& tensor, const c10::IValue* format) {
  if (!format) return true;
  const auto wanted = static_cast<c10::MemoryFormat>(format->toInt());
  return wanted == c10::MemoryFormat::Preserve || tensor.suggest_memory_format() == wanted;
}

// Returns a tensor of the type that the user gave an input or a weight, in the memory of `tensor`,
// which reports the device's type. Returns an undefined tensor if the type is not that one.
at::Tensor in_users_type(const Handled& h, const at::Tensor& tensor, c10::ScalarType type) {
  Root& root = h.tracer.root_of(tensor);
  if (root.wide_type != type || tensor.scalar_type() != root.geometry().dtype) return {};
  at::Tensor result;
  {
    const PauseGuard pause;
    result = tensor.alias();
  }
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  impl->set_storage_and_dtype(result.storage(), c10::scalarTypeToTypeMeta(type));
  report_device(result, ipu_device());
  if (!c10::isFloatingType(type) || !at::GradMode::is_enabled()) return result;
  root.own_history_of(tensor).add(result);
  impl->set_requires_grad(tensor.requires_grad());
  return result;
}

}  // namespace

std::optional<Results> unconverted(const Handled& h) {
  const at::Tensor& tensor = h.arguments[0].toTensor();
  const auto *copy = argument(h, "copy"), *device = argument(h, "device");
  const auto* layout = argument(h, "layout");
  const bool keeps = !(copy && copy->toBool()) && !(device && device->toDevice().is_meta()) &&
                     !(layout && static_cast<c10::Layout>(layout->toInt()) != c10::kStrided) &&
                     has_format(tensor, argument(h, "memory_format"));
  const bool is_of_device = !h.tracer.is_of_host(tensor) && tensor.layout() == c10::kStrided;
  if (!keeps || !is_of_device) return std::nullopt;
  const c10::ScalarType type = requested_type(h, tensor);
  if (tensor.scalar_type() == type) return Results{tensor};
  const at::Tensor same = in_users_type(h, tensor, type);
  return same.defined() ? std::optional(Results{same}) : std::nullopt;
}

}  // namespace poptorch::frontend
