#include "frontends/torch/tracer/calls/generic_call.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <set>

#include "frontends/torch/tracer/calls/call_arguments.hpp"
#include "frontends/torch/tracer/op_facts/purity.hpp"
#include "frontends/torch/tracer/op_facts/torch_functions.hpp"
#include "frontends/torch/tracer/op_facts/trusted_arguments.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using c10::IValue;
using c10::TypeKind;
using support::str;

// Returns whether torch's kernel requires int64 for an argument. The device's integers appear as
// int32.
bool wants_int64(const c10::FunctionSchema& schema, size_t argument,
                 c10::ArrayRef<IValue> arguments) {
  static const std::set<std::string> indices{"index",  "indices",     "offsets",
                                             "sorter", "batch_sizes", "target"};
  const std::string& name = schema.arguments()[argument].name();
  if (name != "out") return indices.contains(name);
  const auto flag = schema.argumentIndexWithName("out_int32");
  return flag && !arguments[*flag].toBool();
}

class Encoder {
 public:
  Encoder(std::vector<at::Tensor>& operands, bool in_f32) : operands_(operands), in_f32_(in_f32) {}

  Json operator()(const IValue& value, bool as_int64) {
    widens_ = as_int64;
    return (*this)(value);
  }

 private:
  Json operator()(const IValue& value) {
    if (value.isTensor()) return tensor(value.toTensor());
    if (value.isNone() || value.isGenerator() || value.isDevice()) return {};
    if (value.isBool()) return Json(value.toBool());
    if (value.isInt()) return Json(value.toInt());
    if (value.isDouble()) return Json(value.toDouble());
    if (value.isString()) return Json(value.toStringRef());
    if (!value.isList()) {
      throw support::UnsupportedError(
          str("[tracer] an argument of type ", value.tagKind(), " is not supported."));
    }
    JsonList items;
    for (const IValue& item : value.toListRef()) items.push_back((*this)(item));
    return Json(std::move(items));
  }

  Json tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    const std::string dtype(ir::name(dtype_of(tensor)));
    JsonObject object;
    if (tensor.numel() == 0) {
      JsonList sizes;
      for (const int64_t size : tensor.sizes()) sizes.emplace_back(size);
      object.emplace_back("empty", std::move(sizes));
      object.emplace_back("of", dtype);
      return Json(std::move(object));
    }
    operands_.push_back(tensor);
    const auto number = static_cast<int64_t>(operands_.size()) - 1;
    object.emplace_back("operand", number);
    object.emplace_back("dtype", dtype);
    return Json(std::move(object));
  }
  ir::DType dtype_of(const at::Tensor& tensor) const {
    const auto own = tensor.scalar_type();
    if (widens_ && own == at::kInt) return ir::DType::kI64;
    if (in_f32_ && (own == at::kHalf || own == at::kBFloat16)) return ir::DType::kF32;
    return ir_dtype(own);
  }

  std::vector<at::Tensor>& operands_;
  const bool in_f32_;
  bool widens_ = false;
};

void collect_dtypes(const Json& value, std::vector<c10::ScalarType>& dtypes) {
  if (const auto* items = std::get_if<JsonList>(&value)) {
    for (const Json& item : *items) collect_dtypes(item, dtypes);
  } else if (const Json* dtype = value.find("dtype")) {
    const auto known = ir::dtype_from_name(dtype->get<std::string>());
    if (known) dtypes.push_back(torch_dtype(*known));
  }
}

// Returns the tensor that `value` describes: an operand, or a tensor without elements. Returns
// nullopt for other values.
std::optional<at::Tensor> tensor_of(const Json& value, const std::vector<at::Tensor>& operands) {
  if (const Json* operand = value.find("operand")) {
    return operands.at(static_cast<size_t>(operand->get<int64_t>()));
  }
  const Json* sizes = value.find("empty");
  if (!sizes) return std::nullopt;
  ir::Shape shape;
  for (const Json& size : sizes->get<JsonList>()) shape.push_back(size.get<int64_t>());
  const auto dtype = torch_dtype(*ir::dtype_from_name(value.find("of")->get<std::string>()));
  return at::empty(shape, at::TensorOptions().dtype(dtype));
}

IValue decode(const Json& value, const c10::Type& type, const std::vector<at::Tensor>& operands);

IValue decode_list(const JsonList& items, const c10::Type& element,
                   const std::vector<at::Tensor>& operands) {
  const auto as_list = [&]<typename T>(auto convert) {
    c10::List<T> list;
    for (const Json& item : items) list.push_back(convert(item));
    return IValue(std::move(list));
  };
  const auto tensor = [&](const Json& item) {
    return item.is_null() ? at::Tensor() : decode(item, element, operands).toTensor();
  };
  switch (element.kind()) {
    case TypeKind::TensorType:
      return as_list.operator()<at::Tensor>(tensor);
    case TypeKind::FloatType:
      return as_list.operator()<double>([](const Json& item) {
        const auto* whole = std::get_if<int64_t>(&item);
        return whole ? static_cast<double>(*whole) : item.get<double>();
      });
    case TypeKind::BoolType:
      return as_list.operator()<bool>([](const Json& item) { return item.get<bool>(); });
    case TypeKind::NumberType:
      return as_list.operator()<c10::Scalar>(
          [&](const Json& item) { return decode(item, element, operands).toScalar(); });
    case TypeKind::OptionalType:
      return as_list.operator()<std::optional<at::Tensor>>(
          [&](const Json& item) -> std::optional<at::Tensor> {
            return item.is_null() ? std::nullopt : tensor_of(item, operands);
          });
    default:
      return as_list.operator()<int64_t>([](const Json& item) { return item.get<int64_t>(); });
  }
}

IValue decode(const Json& value, const c10::Type& type, const std::vector<at::Tensor>& operands) {
  if (type.kind() == TypeKind::OptionalType) {
    if (value.is_null()) return {};
    return decode(value, *type.castRaw<c10::OptionalType>()->getElementType(), operands);
  }
  if (type.kind() == TypeKind::DeviceObjType) return IValue(c10::Device(c10::kCPU));
  if (value.is_null()) return type.kind() == TypeKind::TensorType ? IValue(at::Tensor()) : IValue();
  if (const auto tensor = tensor_of(value, operands)) return *tensor;
  if (const auto* items = std::get_if<JsonList>(&value)) {
    return decode_list(*items, *type.castRaw<c10::ListType>()->getElementType(), operands);
  }
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    return type.kind() == TypeKind::FloatType ? IValue(static_cast<double>(*whole))
                                              : IValue(*whole);
  }
  return value.get<double>();
}

void append_tensors(const IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  }
}

std::vector<size_t> written_arguments(const c10::FunctionSchema& schema) {
  std::vector<size_t> result;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) result.push_back(i);
  }
  return result;
}

c10::OperatorHandle find_operator(const std::string& schema) {
  const size_t dot = schema.rfind('.');
  const std::string overload = schema.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchema(
      {schema.substr(0, dot), overload == "default" ? "" : overload});
  if (!found) {
    throw support::UserError(
        str("[aten] torch has no operator '", schema, "'. Import the library that registers it."));
  }
  return *found;
}

}  // namespace

GenericCall::GenericCall(c10::OperatorHandle op, Json arguments)
    : op_(op), arguments_(std::move(arguments)), writes_(written_arguments(op.schema())) {
  collect_dtypes(arguments_, dtypes_);
}

GenericCall::GenericCall(const std::string& schema, const std::string& arguments)
    : GenericCall(find_operator(schema), parse_json(arguments)) {
  check_pure(op_);
  check_arguments(op_.schema(), arguments_);
  if (dtypes_.empty()) {
    throw support::UserError(str("'", schema, "' has no operand with elements."));
  }
}

GenericCall GenericCall::of(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments,
                            std::vector<at::Tensor>& operands, bool in_f32) {
  JsonList items;
  Encoder encode(operands, in_f32);
  for (size_t i = 0; i < arguments.size(); ++i) {
    items.push_back(encode(arguments[i], wants_int64(op.schema(), i, arguments)));
  }
  return {op, Json(std::move(items))};
}

std::string GenericCall::schema() const {
  const auto& overload = op_.schema().overload_name();
  return str(op_.schema().name(), ".", overload.empty() ? "default" : overload);
}

std::vector<at::Tensor> GenericCall::widened(const std::vector<at::Tensor>& operands) const {
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < operands.size(); ++i) result.push_back(operands[i].to(dtypes_.at(i)));
  return result;
}

std::vector<at::Tensor> GenericCall::invoke(std::vector<at::Tensor> operands) const {
  const auto& schema = op_.schema();
  torch::jit::Stack stack;
  const auto& items = arguments_.get<JsonList>();
  for (size_t i = 0; i < items.size(); ++i) {
    stack.push_back(decode(items[i], *schema.arguments()[i].real_type(), operands));
  }
  check_trusted_arguments(schema.name(), stack);
  for (const size_t i : writes_) stack[i] = stack[i].toTensor().clone();
  std::vector<IValue> written;
  for (const size_t i : writes_) written.push_back(stack[i]);
  op_.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const IValue& value : writes_.empty() ? stack : written) append_tensors(value, results);
  return results;
}

std::vector<at::Tensor> GenericCall::run(const std::vector<at::Tensor>& operands) const {
  const at::NoGradGuard no_grad;
  return invoke(widened(operands));
}

namespace {

bool differentiable(const at::Tensor& tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

}  // namespace

std::vector<at::Tensor> GenericCall::gradients(const std::vector<at::Tensor>& operands,
                                               const std::vector<at::Tensor>& result_gradients,
                                               const std::vector<int64_t>& given,
                                               const std::vector<int64_t>& needed) const {
  const at::AutoGradMode grad(true);
  auto leaves = widened(operands);
  std::vector<at::Tensor> wanted;
  for (const int64_t i : needed) {
    leaves[i] = leaves[i].detach().requires_grad_(true);
    wanted.push_back(leaves[i]);
  }
  const auto results = invoke(leaves);
  std::vector<at::Tensor> outputs, gradients;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto place = static_cast<size_t>(given[i]);
    if (place >= results.size() || !differentiable(results[place])) {
      throw support::UserError(
          support::str("[aten] has no floating result ", place, " that a gradient could be of."));
    }
    const at::Tensor& result = results[place];
    if (!result_gradients[i].defined() || !result.requires_grad()) continue;
    outputs.push_back(result);
    gradients.push_back(result_gradients[i].to(result.scalar_type()));
  }
  if (outputs.empty()) return std::vector<at::Tensor>(wanted.size());
  auto result = torch::autograd::grad(outputs, wanted, gradients, false, false, true);
  for (at::Tensor& gradient : result) {
    if (gradient.defined() && gradient.is_sparse()) gradient = gradient.to_dense();
  }
  return result;
}

}  // namespace poptorch::frontend
