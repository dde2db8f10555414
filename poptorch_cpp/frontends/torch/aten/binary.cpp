// aten rows of two and three operands with broadcasting.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/torch/aten/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

DType float_type(Call& c, DType dtype) {
  return ir::is_float(dtype) || ir::is_complex(dtype) ? dtype : c.default_float();
}

// a + alpha·b, or a - alpha·b.
Rule scaled_sum(std::string op) {
  return [op](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    Val b = c.operand(1, dtype);
    if (c.given("alpha") && c.real("alpha") != 1) {
      b = c.emit("mul", {b, c.operand(c.index_of("alpha"), dtype)});
    }
    // Booleans add as a logical or.
    return {
        {c.emit(dtype == DType::kBool && op == "add" ? "logical_or" : op, {c.operand(0, dtype), b}),
         dtype}};
  };
}

Values rsub(Call& c) {
  const DType dtype = c.result_type({0, 1});
  Val a = c.operand(0, dtype);
  if (c.given("alpha") && c.real("alpha") != 1) {
    a = c.emit("mul", {a, c.operand(c.index_of("alpha"), dtype)});
  }
  return {{c.emit("sub", {c.operand(1, dtype), a}), dtype}};
}

Values multiply(Call& c) {
  const DType dtype = c.result_type({0, 1});
  const char* op = dtype == DType::kBool ? "logical_and" : "mul";
  return {{c.emit(op, {c.operand(0, dtype), c.operand(1, dtype)}), dtype}};
}

Values divide(Call& c) {
  const DType common = c.result_type({0, 1});
  const std::string mode = c.given("rounding_mode") ? c.text("rounding_mode") : "";
  if (mode == "floor") {
    return {{c.emit("floor_div", {c.operand(0, common), c.operand(1, common)}), common}};
  }
  const DType dtype = float_type(c, common);
  const Val quotient = c.operand(0, dtype) / c.operand(1, dtype);
  if (mode.empty()) return {{quotient, dtype}};
  return {{c.cast(c.emit("trunc", {quotient}), common), common}};
}

Values power(Call& c) {
  const DType dtype = c.result_type({0, 1});
  if (!c.is_tensor(1) && c.is_tensor(0)) {
    const Val x = c.operand(0, dtype);
    const double exponent = c.number(1).real;
    if (exponent == 2) return {{c.emit("square", {x}), dtype}};
    if (exponent == 1) return {{c.emit("identity", {x}), dtype}};
    if (exponent == 0.5 && ir::is_float(dtype)) return {{c.emit("sqrt", {x}), dtype}};
    if (exponent == -0.5 && ir::is_float(dtype)) return {{c.emit("rsqrt", {x}), dtype}};
    if (exponent == -1 && ir::is_float(dtype)) return {{c.emit("reciprocal", {x}), dtype}};
    if (exponent == 3) return {{c.emit("square", {x}) * x, dtype}};
  }
  return {{c.emit("pow", {c.operand(0, dtype), c.operand(1, dtype)}), dtype}};
}

Values atan2(Call& c) {
  const DType dtype = float_type(c, c.result_type({0, 1}));
  return {{c.emit("atan2", {c.operand(0, dtype), c.operand(1, dtype)}), dtype}};
}

Rule comparison(std::string op) {
  return [op](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    return {{c.emit(op, {c.operand(0, dtype), c.operand(1, dtype)}), DType::kBool}};
  };
}

Rule logical(std::string op) {
  return [op](Call& c) -> Values {
    return {{c.emit(op, {c.operand(0, DType::kBool), c.operand(1, DType::kBool)}), DType::kBool}};
  };
}

// On bools, the bitwise operators are the logical ones.
Rule bitwise(std::string suffix) {
  return [suffix](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    const std::string kind = dtype == DType::kBool ? "logical_" : "bitwise_";
    return {{c.emit(kind + suffix, {c.operand(0, dtype), c.operand(1, dtype)}), dtype}};
  };
}

Values where(Call& c) {
  const DType dtype = c.result_type({1, 2});
  const Val condition = c.cast(c.tensor(0).value, DType::kBool);
  return {{c.emit("select", {condition, c.operand(1, dtype), c.operand(2, dtype)}), dtype}};
}

Values masked_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val mask = c.cast(c.tensor(1).value, DType::kBool);
  return {{c.emit("select", {mask, c.operand(2, x.dtype), x.value}), x.dtype}};
}

Values clamp_between(Call& c, std::string_view low_name, std::string_view high_name) {
  const size_t low = c.index_of(low_name), high = c.index_of(high_name);
  const bool has_low = low != Call::kNone && c.given(low);
  const bool has_high = high != Call::kNone && c.given(high);
  std::vector<size_t> operands{0};
  if (has_low) operands.push_back(low);
  if (has_high) operands.push_back(high);
  const DType dtype = c.result_type(operands);
  Val x = c.operand(0, dtype);
  const bool numbers = !(has_low && c.is_tensor(low)) && !(has_high && c.is_tensor(high));
  if (numbers && ir::is_float(dtype)) {
    const double from = has_low ? c.number(low).real : -kInfinity;
    const double to = has_high ? c.number(high).real : kInfinity;
    return {{c.emit("clamp", {x}, {{"low", from}, {"high", to}}), dtype}};
  }
  if (has_low) x = c.emit("maximum", {x, c.operand(low, dtype)});
  if (has_high) x = c.emit("minimum", {x, c.operand(high, dtype)});
  return {{x, dtype}};
}

// clamp, but torch's derivative is zero on the bounds themselves.
Values hardtanh(Call& c) {
  const Values clamped = clamp_between(c, "min_val", "max_val");
  if (!c.training() || !ir::is_float(clamped[0].dtype)) return clamped;
  const DType dtype = clamped[0].dtype;
  const Val x = c.operand(0, dtype);
  const Val above = c.emit("gt", {x, c.scalar(dtype, c.real("min_val"))});
  const Val below = c.emit("lt", {x, c.scalar(dtype, c.real("max_val"))});
  const Val inside = c.emit("logical_and", {above, below});
  const Val edge = c.emit("detach", {clamped[0].value});
  return {{c.emit("select", {inside, x, edge}), dtype}};
}

// input + value · (a op b)
Rule fused_sum(std::string op) {
  return [op](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1, 2});
    Val product = c.emit(op, {c.operand(1, dtype), c.operand(2, dtype)});
    if (c.given("value") && c.real("value") != 1) {
      product = c.emit("mul", {product, c.operand(c.index_of("value"), dtype)});
    }
    return {{c.operand(0, dtype) + product, dtype}};
  };
}

Values lerp(Call& c) {
  const DType dtype = c.result_type({0, 1});
  const Val start = c.operand(0, dtype);
  return {{start + c.operand(2, dtype) * (c.operand(1, dtype) - start), dtype}};
}

Values hypot(Call& c) {
  const DType dtype = float_type(c, c.result_type({0, 1}));
  const Val a = c.emit("square", {c.operand(0, dtype)});
  return {{c.emit("sqrt", {a + c.emit("square", {c.operand(1, dtype)})}), dtype}};
}

Values xlogy(Call& c) {
  const DType dtype = float_type(c, c.result_type({0, 1}));
  const Val x = c.operand(0, dtype), zero = c.scalar(dtype, 0);
  const Val product = x * c.emit("log", {c.operand(1, dtype)});
  return {{c.emit("select", {c.emit("eq", {x, zero}), zero, product}), dtype}};
}

// Like maximum and minimum, but a number wins over nan, and the first operand over its equal.
Rule ignoring_nan(const char* first_wins) {
  return [first_wins](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    const Val a = c.operand(0, dtype), b = c.operand(1, dtype);
    Val takes_a = c.emit(first_wins, {a, b});
    if (ir::is_float(dtype)) takes_a = c.emit("logical_or", {takes_a, c.emit("isnan", {b})});
    return {{c.emit("select", {takes_a, a, b}), dtype}};
  };
}

// The larger plus log(1 + exp(-|b - a|)); equal infinities have no difference.
Values logaddexp(Call& c) {
  const DType dtype = float_type(c, c.result_type({0, 1}));
  const Val a = c.operand(0, dtype), b = c.operand(1, dtype);
  const Val apart = c.emit("select", {c.emit("eq", {a, b}), c.scalar(dtype, 0), b - a});
  const Val rest = c.emit("softplus", {-c.emit("abs", {apart})});
  return {{c.emit("maximum", {a, b}) + rest, dtype}};
}

}  // namespace

void add_binary_rules(Rules& r) {
  r.add("add", scaled_sum("add"));
  r.add("sub", scaled_sum("sub"));
  r.add("rsub", rsub);
  r.add("mul", multiply);
  r.add("div", divide);
  r.add("pow", power);
  r.add("atan2", atan2);
  r.add("floor_divide", direct_binary("floor_div"));
  for (const char* op : {"fmod", "remainder", "maximum", "minimum"}) {
    r.add(op, direct_binary(op));
  }
  r.add("fmax", ignoring_nan("ge"));
  r.add("fmin", ignoring_nan("le"));
  r.add("max.other", direct_binary("maximum"));
  r.add("min.other", direct_binary("minimum"));
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) r.add(op, comparison(op));
  for (const char* op : {"logical_and", "logical_or", "logical_xor"}) r.add(op, logical(op));
  for (const std::string op : {"and", "or", "xor"}) {
    r.add("bitwise_" + op, bitwise(op));
    r.add("__" + op + "__", bitwise(op));
  }
  r.add("bitwise_left_shift", direct_binary("shift_left"));
  r.add("bitwise_right_shift", direct_binary("shift_right"));
  r.add("__lshift__", direct_binary("shift_left"));
  r.add("__rshift__", direct_binary("shift_right"));
  r.add("where.self", where);
  r.add("where.Scalar", where);
  r.add("where.ScalarSelf", where);
  r.add("where.ScalarOther", where);
  r.add("masked_fill", masked_fill);
  r.add("clamp", [](Call& c) { return clamp_between(c, "min", "max"); });
  r.add("clamp_min", [](Call& c) { return clamp_between(c, "min", ""); });
  r.add("clamp_max", [](Call& c) { return clamp_between(c, "", "max"); });
  r.add("hardtanh", hardtanh);
  r.add("addcmul", fused_sum("mul"));
  r.add("addcdiv", fused_sum("div"));
  r.add("lerp", lerp);
  r.add("hypot", hypot);
  r.add("xlogy", xlogy);
  r.add("logaddexp", logaddexp);
}

}  // namespace poptorch::frontend
