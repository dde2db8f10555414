// Reads IValues.
#include "frontends/torch/tracer/graph/torch_call.hpp"

#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>

#include "frontends/torch/tracer/values/types.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {

using support::str;

std::string TorchCall::name() const {
  const auto& overload = schema_.overload_name();
  return overload.empty() ? schema_.name() : schema_.name() + "." + overload;
}

size_t TorchCall::index_of(std::string_view argument) const {
  const auto& all = schema_.arguments();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name() == argument) return i;
  }
  return kNone;
}

bool TorchCall::given(size_t argument) const {
  if (argument >= arguments_.size() || arguments_[argument].isNone()) return false;
  return !arguments_[argument].isTensor() || arguments_[argument].toTensor().defined();
}

bool TorchCall::is_tensor(size_t argument) const {
  const c10::IValue& value = arguments_[argument];
  if (!value.isTensor()) return false;
  const at::Tensor& tensor = value.toTensor();
  const bool wrapped = tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return !wrapped || is_dataless(tensor);
}

bool TorchCall::is_list(size_t argument) const {
  return arguments_[argument].isList() && !arguments_[argument].isTensorList();
}

TensorValue TorchCall::value_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tracer_.read(tensor), ir_dtype(tensor.scalar_type())};
}

TensorValue TorchCall::read(size_t argument) {
  return given(argument) ? value_of(arguments_[argument].toTensor()) : TensorValue{};
}

std::vector<TensorValue> TorchCall::read_list(size_t argument) {
  std::vector<TensorValue> result;
  for (const c10::IValue& item : arguments_[argument].toListRef()) {
    result.push_back(item.isNone() ? TensorValue{} : value_of(item.toTensor()));
  }
  return result;
}

namespace {

c10::Scalar scalar_of(const c10::IValue& value) {
  if (!value.isTensor()) return value.toScalar();
  const PauseGuard pause;
  return value.toTensor().item();
}

}  // namespace

Number TorchCall::number(size_t argument) const {
  const c10::Scalar scalar = scalar_of(arguments_[argument]);
  if (scalar.isBoolean()) return {Number::Kind::kBool, double(scalar.toBool()), scalar.toBool()};
  if (scalar.isIntegral(false)) {
    return {Number::Kind::kInt, scalar.toDouble(), scalar.toLong()};
  }
  if (!scalar.isFloatingPoint()) unsupported("complex numbers as arguments are not supported.");
  return {Number::Kind::kFloat, scalar.toDouble(), 0};
}

Ints TorchCall::ints(size_t argument) const {
  const c10::IValue& value = arguments_[argument];
  if (!value.isList()) return {value.toScalar().toLong()};
  Ints result;
  for (const c10::IValue& item : value.toListRef()) result.push_back(item.toScalar().toLong());
  return result;
}

std::string TorchCall::text(size_t argument) const { return arguments_[argument].toStringRef(); }

DType TorchCall::dtype(size_t argument) const {
  return ir_dtype(arguments_[argument].toScalarType());
}

std::optional<Ints> TorchCall::known(size_t argument) const {
  const auto found = tracer_.known(arguments_[argument].toTensor());
  if (!found) return std::nullopt;
  const PauseGuard pause;
  const at::Tensor numbers = found->to(at::kLong).contiguous();
  const auto* first = numbers.const_data_ptr<int64_t>();
  return Ints(first, first + numbers.numel());
}

DType TorchCall::promoted(const std::vector<size_t>& arguments) const {
  at::native::ResultTypeState state;
  for (const size_t i : arguments) {
    const c10::IValue& value = arguments_[i];
    state = value.isTensor() ? at::native::update_result_type_state(value.toTensor(), state)
                             : at::native::update_result_type_state(value.toScalar(), state);
  }
  return ir_dtype(at::native::result_type(state));
}

DType TorchCall::default_float() const { return ir_dtype(c10::get_default_dtype_as_scalartype()); }

void TorchCall::write(size_t argument, Value* value) {
  const at::Tensor& tensor = arguments_[argument].toTensor();
  tracer_.write(tensor, cast(value, ir_dtype(tensor.scalar_type())));
}

}  // namespace poptorch::frontend
