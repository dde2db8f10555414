// A test case of a gradient rule: an op and its operands.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "ir/attr.hpp"
#include "reference/convert.hpp"

namespace poptorch::ops {

using ir::Attrs;
using ir::DType;
using ir::Literal;
using ir::Shape;
using ir::Type;

struct Input {
  Type type;
  std::vector<double> values;
  bool differentiable = true;
  bool absent = false;
};

inline Literal literal(const Type& type, const std::vector<double>& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  reference::from_doubles(type.dtype, values.data(), type.elements(), bytes.data());
  return Literal(type, std::move(bytes));
}

// Returns numbers in (low, high) in random order, well separated: without ties, and not near kinks.
inline Input real(Shape shape, double low = -1, double high = 1) {
  Input input{{DType::kF64, std::move(shape)}, {}};
  const int64_t n = input.type.elements();
  for (int64_t i = 0; i < n; ++i) {
    const double place = std::fmod(0.5 + static_cast<double>(i + 1) * 0.6180339887498949, 1.0);
    input.values.push_back(low + (high - low) * place);
  }
  return input;
}
inline Input exactly(Shape shape, std::vector<double> values) {
  return {{DType::kF64, std::move(shape)}, std::move(values)};
}
inline Input ints(Shape shape, std::vector<double> values) {
  return {{DType::kI32, std::move(shape)}, std::move(values), false};
}
inline Input bools(Shape shape, std::vector<double> values) {
  return {{DType::kBool, std::move(shape)}, std::move(values), false};
}
inline Input fixed(Input input) {
  input.differentiable = false;
  return input;
}
inline Input absent() {
  Input input;
  input.differentiable = false;
  input.absent = true;
  return input;
}

struct Case {
  std::string op;
  std::vector<Input> inputs;
  Attrs attrs = {};
  std::vector<size_t> results = {0};  // those that the loss depends on
};

}  // namespace poptorch::ops
