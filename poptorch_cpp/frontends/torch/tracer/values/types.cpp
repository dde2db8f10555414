#include "frontends/torch/tracer/values/types.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "frontends/torch/aten/call.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

// Torch's code requests a device guard when it receives an `ipu` tensor. The guard does nothing.
C10_REGISTER_GUARD_IMPL(IPU, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::IPU>)

namespace poptorch::frontend {
namespace {

using c10::ScalarType;
using ir::DType;

constexpr std::array<std::pair<ScalarType, DType>, 19> kTypes{{
    {ScalarType::Bool, DType::kBool},
    {ScalarType::Char, DType::kI8},
    {ScalarType::Short, DType::kI16},
    {ScalarType::Int, DType::kI32},
    {ScalarType::Long, DType::kI64},
    {ScalarType::Byte, DType::kU8},
    {ScalarType::UInt16, DType::kU16},
    {ScalarType::UInt32, DType::kU32},
    {ScalarType::UInt64, DType::kU64},
    {ScalarType::Float8_e4m3fnuz, DType::kF8_143},
    {ScalarType::Float8_e5m2fnuz, DType::kF8_152},
    {ScalarType::Float8_e4m3fn, DType::kF8_E4M3FN},
    {ScalarType::Float8_e5m2, DType::kF8_E5M2},
    {ScalarType::Half, DType::kF16},
    {ScalarType::BFloat16, DType::kBF16},
    {ScalarType::Float, DType::kF32},
    {ScalarType::Double, DType::kF64},
    {ScalarType::ComplexFloat, DType::kC64},
    {ScalarType::ComplexDouble, DType::kC128},
}};

constexpr const char* kNoValues =
    "[tracer] the values of this tensor are needed on the host, but they are not known while the "
    "model is traced. Keep numpy(), tolist(), print and other reads of values out of forward, or "
    "return the tensor and read it afterwards.";

// Gives access to device_opt_, which is protected. `tensor.device` reads nothing else.
struct DeviceAccess : c10::TensorImpl {
  static constexpr auto kMember = &DeviceAccess::device_opt_;
};

}  // namespace

DType ir_dtype(ScalarType dtype) {
  for (const auto& [torch, ours] : kTypes) {
    if (torch == dtype) return ours;
  }
  const char* cure = c10::isQIntType(dtype)
                         ? "Simulate them with torch.fake_quantize_per_tensor_affine or "
                           "fake_quantize_per_channel_affine."
                         : "Cast them first.";
  throw support::UnsupportedError(support::str("[tracer] tensors of dtype ", c10::toString(dtype),
                                               " are not supported. ", cure));
}

ScalarType torch_dtype(DType dtype) {
  for (const auto& [torch, ours] : kTypes) {
    if (ours == dtype) return torch;
  }
  throw support::InternalError("[tracer] an IR dtype has no torch counterpart.");
}

ir::Type type_of_tensor(const at::Tensor& tensor) {
  return {ir_dtype(tensor.scalar_type()), tensor.sizes().vec()};
}

c10::Device ipu_device() { return c10::Device(c10::DeviceType::IPU, 0); }

at::Tensor make_dataless(const ir::Shape& shape, ScalarType dtype) {
  const auto meta = c10::scalarTypeToTypeMeta(dtype);
  const auto bytes = static_cast<size_t>(ir::element_count(shape)) * meta.itemsize();
  c10::Storage storage(
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t{}, bytes,
                                            c10::DataPtr(nullptr, ipu_device()), nullptr, false));
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      std::string(kNoValues));
  // DeferredInit is the tracer's key: the tracer receives and refuses a tensor that outlives the
  // trace.
  const c10::DispatchKeySet keys{c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU,
                                 c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::DeferredInit};
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, meta);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  report_device(tensor, ipu_device());
  return tensor;
}

bool is_dataless(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() &&
         tensor.storage().device_type() == c10::DeviceType::IPU;
}

void report_device(const at::Tensor& tensor, c10::Device device) {
  tensor.unsafeGetTensorImpl()->*DeviceAccess::kMember = device;
}

namespace {

template <typename Wide, typename Narrow>
constexpr bool fits(Wide value) {
  if constexpr (std::is_floating_point_v<Wide>) {
    return !(std::isfinite(value) && std::isinf(static_cast<Narrow>(value)));
  } else {
    return static_cast<Wide>(static_cast<Narrow>(value)) == value;
  }
}

std::string place_in(const at::Tensor& tensor, int64_t element) {
  std::vector<int64_t> position(static_cast<size_t>(tensor.dim()));
  for (size_t axis = position.size(); axis-- > 0;) {
    position[axis] = element % tensor.size(static_cast<int64_t>(axis));
    element /= tensor.size(static_cast<int64_t>(axis));
  }
  return ir::shape_text(position);
}

}  // namespace

at::Tensor plain(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  return dense.is_neg() || dense.is_conj() ? dense.resolve_neg().resolve_conj() : dense;
}

namespace {

template <typename Wide, typename Narrow>
at::Tensor narrowed_as(const at::Tensor& tensor, ScalarType dtype, const std::string& what) {
  const at::Tensor dense = plain(tensor);
  const at::Tensor result = at::empty(tensor.sizes(), at::TensorOptions().dtype(dtype));
  const auto* from = static_cast<const Wide*>(dense.const_data_ptr());
  auto* to = static_cast<Narrow*>(result.mutable_data_ptr());
  bool all_fit = true;
  for (int64_t i = 0; i < dense.numel(); ++i) {
    to[i] = static_cast<Narrow>(from[i]);
    all_fit &= fits<Wide, Narrow>(from[i]);
  }
  for (int64_t i = 0; !all_fit && i < dense.numel(); ++i) {
    if (fits<Wide, Narrow>(from[i])) continue;
    throw support::UserError(support::str(
        "[64 bits] ", what, " holds ", from[i], " at ", place_in(dense, i), ", as ",
        c10::toString(tensor.scalar_type()), ", but the device has numbers of 32 bits. Keep such ",
        "values out of the model, or scale them."));
  }
  return result;
}

}  // namespace

at::Tensor narrowed(const at::Tensor& tensor, const std::string& what) {
  switch (tensor.scalar_type()) {
    case ScalarType::Long:
      return narrowed_as<int64_t, int32_t>(tensor, ScalarType::Int, what);
    case ScalarType::UInt64:
      return narrowed_as<uint64_t, uint32_t>(tensor, ScalarType::UInt32, what);
    case ScalarType::Double:
      return narrowed_as<double, float>(tensor, ScalarType::Float, what);
    default:
      break;
  }
  return plain(tensor.detach().to(torch_dtype(narrow(ir_dtype(tensor.scalar_type())))));
}

ir::Literal literal_of(const at::Tensor& tensor, const std::string& what) {
  if (tensor.is_meta()) {
    throw support::UserError(support::str("[tracer] ", what,
                                          " is a meta tensor, which has no values. Use a tensor of "
                                          "the host that has them."));
  }
  const ir::Type type{narrow(ir_dtype(tensor.scalar_type())), tensor.sizes().vec()};
  const at::Tensor dense = narrowed(tensor, what);
  std::vector<std::byte> data(static_cast<size_t>(type.bytes()));
  if (!data.empty()) std::memcpy(data.data(), dense.const_data_ptr(), data.size());
  return ir::Literal(type, std::move(data));
}

at::Tensor tensor_of(const ir::Literal& literal) {
  const ir::Type& type = literal.type();
  at::Tensor tensor = at::empty(type.shape, torch_dtype(type.dtype));
  if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), literal.data(), tensor.nbytes());
  return tensor;
}

}  // namespace poptorch::frontend
