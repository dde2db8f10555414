// The parts of Call that do not depend on torch.
#include "frontends/torch/aten/call.hpp"

#include <algorithm>
#include <numeric>

#include "frontends/torch/aten/kinds.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {

using support::str;

DType narrow(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return DType::kI32;
    case DType::kU64:
      return DType::kU32;
    case DType::kF64:
      return DType::kF32;
    case DType::kC128:
      return DType::kC64;
    default:
      return dtype;
  }
}

void Call::fail(const std::string& text) const {
  throw support::UserError(str("[", name(), "] ", text, place()));
}

void Call::unsupported(const std::string& text) const {
  throw support::UnsupportedError(str("[", name(), "] ", text, place()));
}

void Call::unsupported_op(const std::string& text) const {
  throw support::UnsupportedError(
      str("Unsupported ops found in compiled model: [", name(), "]", place(), ". ", text));
}

size_t Call::at(std::string_view argument) const {
  const size_t i = index_of(argument);
  if (i == kNone) {
    throw support::InternalError(str("[tracer] '", name(), "' has no argument '", argument, "'."));
  }
  return i;
}

TensorValue Call::widened(TensorValue x) {
  if (!x || !half_ || x.dtype != *half_) return x;
  return {cast(x.value, DType::kF32), DType::kF32};
}

std::vector<TensorValue> Call::tensors(size_t argument) {
  std::vector<TensorValue> list = read_list(argument);
  for (TensorValue& x : list) x = widened(x);
  return list;
}

DType Call::result_type(const std::vector<size_t>& arguments) const {
  const DType dtype = promoted(arguments);
  return half_ == dtype ? DType::kF32 : dtype;
}

std::optional<DType> Call::common_half() {
  std::optional<DType> common;
  for (size_t i = 0; i < argument_count(); ++i) {
    if (!is_tensor(i) || !given(i)) continue;
    const DType dtype = read(i).dtype;
    if (!ir::is_float(dtype)) continue;
    if (!ir::is_half(dtype)) return std::nullopt;
    if (common && *common != dtype) return std::nullopt;
    common = dtype;
  }
  return common;
}

Val Call::with_gradient(Val value, Val path) {
  if (!differentiates() || !ir::is_float(value.type().dtype)) return value;
  return emit("with_history", {value, path});
}

Val Call::with_slopes(Val value, const std::vector<Slope>& slopes) {
  if (!differentiates()) return value;
  std::optional<Val> path;
  for (const Slope& s : slopes) {
    const Val part = s.operand * emit("detach", {s.slope});
    path = path ? *path + part : part;
  }
  return with_gradient(value, broadcast(*path, value.type().shape));
}

Val Call::only_where(Val mask, Val x) {
  return emit("select", {mask, x, scalar(x.type().dtype, 0)});
}

TensorValue Call::tensor(std::string_view argument) {
  return given(argument) ? tensor(index_of(argument)) : TensorValue{};
}

Ints Call::ints(std::string_view argument) const {
  return given(argument) ? ints(index_of(argument)) : Ints{};
}

int64_t Call::integer(std::string_view argument, int64_t otherwise) const {
  return given(argument) ? integer(argument) : otherwise;
}

double Call::real(std::string_view argument, double otherwise) const {
  return given(argument) ? real(argument) : otherwise;
}

bool Call::flag(std::string_view argument, bool otherwise) const {
  return given(argument) ? flag(argument) : otherwise;
}

std::optional<DType> Call::dtype(std::string_view argument) const {
  if (!given(argument)) return std::nullopt;
  return dtype(index_of(argument));
}

Val Call::operand(size_t argument, DType dtype) {
  if (is_tensor(argument)) return cast(tensor(argument).value, dtype);
  const Number given_number = number(argument);
  const DType narrowed = narrow(dtype);
  if (given_number.kind == Number::Kind::kFloat) return scalar(dtype, given_number.real);
  // An i32 value may stand for an i64 input.
  const bool may_be_wide = narrowed == DType::kI32 || (narrowed != dtype && !ir::is_float(dtype));
  if (may_be_wide && given_number.integer != static_cast<int32_t>(given_number.integer)) {
    fail(str("the number ", given_number.integer,
             " needs 64 bits, but the device has numbers of 32 bits. Use a smaller one."));
  }
  return val(builder_.constant(ir::Literal::scalar(narrowed, given_number.integer)));
}

Val Call::cast(Value* value, DType dtype) {
  const DType narrowed = narrow(dtype);
  if (value->type().dtype == narrowed) return val(value);
  return emit("cast", {value}, {{"dtype", narrowed}});
}

Val Call::emit(std::string_view op, std::vector<Value*> operands, Attrs attrs,
               std::vector<Type> stated) {
  return val(builder_.value(op, std::move(operands), std::move(attrs), std::move(stated)));
}

Val Call::scalar(DType dtype, double value) { return val(builder_.scalar(narrow(dtype), value)); }

Val Call::full(const Shape& shape, DType dtype, double value) {
  return broadcast(scalar(dtype, value), shape);
}

Val Call::reshape(Value* value, const Shape& shape) {
  if (value->type().shape == shape) return val(value);
  return emit("reshape", {value}, {{"shape", Ints(shape)}});
}

Val Call::transpose(Value* value, const Ints& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return val(value);
  return emit("transpose", {value}, {{"permutation", permutation}});
}

Val Call::broadcast(Value* value, const Shape& shape) {
  if (value->type().shape == shape) return val(value);
  return emit("broadcast_to", {value}, {{"shape", Ints(shape)}});
}

Val Call::slice(Value* value, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  const Shape& shape = value->type().shape;
  Ints starts(shape.size(), 0), stops(shape), steps(shape.size(), 1);
  starts[axis] = start;
  stops[axis] = stop;
  steps[axis] = step;
  return emit("slice", {value}, {{"starts", starts}, {"stops", stops}, {"steps", steps}});
}

Val Call::wrapped_indices(const TensorValue& indices, int64_t size) {
  const Val index = whole_numbers(*this, indices, "indices");
  const Val negative = emit("lt", {index, scalar(DType::kI32, 0)});
  return emit("select", {negative, index + static_cast<double>(size), index});
}

int64_t Call::axis(int64_t dim, int64_t rank) const {
  const int64_t range = std::max<int64_t>(rank, 1);
  if (dim < -range || dim >= range) {
    // torch's own sentence, on which programs match
    fail(str("Dimension out of range (expected to be in range of [", -range, ", ", range - 1,
             "], but got ", dim, "). Give one from ", -range, " to ", range - 1, "."));
  }
  return dim < 0 ? dim + range : dim;
}

Ints Call::axes(std::string_view argument, int64_t rank) const {
  Ints result = ints(argument);
  if (result.empty()) {
    result.resize(rank);
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  if (rank == 0) return {};
  for (int64_t& dim : result) dim = axis(dim, rank);
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace poptorch::frontend
