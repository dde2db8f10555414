// aten rows that fill new tensors with one value, or overwrite tensors. Other factories (arange,
// eye, linspace, ...) run on the host and become constants: see tracer/generic.cpp.
#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Makes the row of zeros(size), ones(size) or empty(size).
Rule filled(double value) {
  return [value](Call& c) -> Values {
    const DType dtype = c.dtype("dtype").value_or(c.default_float());
    return {{c.full(c.ints("size"), dtype, value), dtype}};
  };
}

Rule filled_like(double value) {
  return [value](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    const DType dtype = c.dtype("dtype").value_or(x.dtype);
    const bool sized = c.index_of("size") != Call::kNone;  // new_zeros(self, size)
    return {{c.full(sized ? c.ints("size") : x.shape(), dtype, value), dtype}};
  };
}

DType type_of(const Call& c, const Number& number) {
  switch (number.kind) {
    case Number::Kind::kBool:
      return DType::kBool;
    case Number::Kind::kInt:
      return DType::kI64;
    default:
      return c.default_float();
  }
}

Val filled_with(Call& c, const Shape& shape, size_t argument, DType dtype) {
  return c.broadcast(c.operand(argument, dtype), shape);
}

Values full(Call& c) {
  const size_t value = c.index_of("fill_value");
  const DType dtype = c.dtype("dtype").value_or(type_of(c, c.number(value)));
  return {{filled_with(c, c.ints("size"), value, dtype), dtype}};
}

Values full_like(Call& c) {
  const TensorValue x = c.tensor(0);
  const DType dtype = c.dtype("dtype").value_or(x.dtype);
  const bool sized = c.index_of("size") != Call::kNone;
  const Shape shape = sized ? c.ints("size") : x.shape();
  return {{filled_with(c, shape, c.index_of("fill_value"), dtype), dtype}};
}

Values scalar_tensor(Call& c) {
  const DType dtype = c.dtype("dtype").value_or(c.default_float());
  return {{c.operand(0, dtype), dtype}};
}

Values fill(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{filled_with(c, x.shape(), 1, x.dtype), x.dtype}};
}

Values zero(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{c.full(x.shape(), x.dtype, 0), x.dtype}};
}

Values copy(Call& c) {
  const TensorValue x = c.tensor(0), source = c.tensor(1);
  return {{c.broadcast(c.cast(source.value, x.dtype), x.shape()), x.dtype}};
}

}  // namespace

void add_creation_rules(Rules& r) {
  for (const char* op : {"zeros", "empty", "empty_strided"}) r.add(op, filled(0));
  r.add("ones", filled(1));
  for (const char* op :
       {"zeros_like", "empty_like", "new_zeros", "new_empty", "new_empty_strided"}) {
    r.add(op, filled_like(0));
  }
  for (const char* op : {"ones_like", "new_ones"}) r.add(op, filled_like(1));
  r.add("full", full);
  r.add("full_like", full_like);
  r.add("new_full", full_like);
  r.add("scalar_tensor", scalar_tensor);
  r.add("fill", fill);
  r.add("zero", zero);
  r.add("copy", copy);
}

}  // namespace poptorch::frontend
