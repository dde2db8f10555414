// aten rows of two and three operands with broadcasting.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "frontends/torch/aten/kinds.hpp"
#include "frontends/torch/aten/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

DType float_type(Call& c, DType dtype) {
  return ir::is_float(dtype) || ir::is_complex(dtype) ? dtype : c.default_float();
}

// Makes the row of operand `first` ± alpha · operand `second`. Booleans use the op `of_truths`.
Rule sum(std::string op, std::string of_truths, size_t first, size_t second) {
  const auto plain = [=](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    const std::string& kind = dtype == DType::kBool ? of_truths : op;
    return {{c.emit(kind, {c.operand(first, dtype), c.operand(second, dtype)}), dtype}};
  };
  const auto scaled = [=](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    const Val factor = c.operand(c.index_of("alpha"), dtype);
    const Val added = c.emit("mul", {c.operand(second, dtype), factor});
    const std::string& kind = dtype == DType::kBool ? of_truths : op;
    return {{c.emit(kind, {c.operand(first, dtype), added}), dtype}};
  };
  return [=](Call& c) {
    const bool is_scaled = c.given("alpha") && c.real("alpha") != 1;
    return is_scaled ? in_f32(c, scaled) : plain(c);
  };
}

Values multiply(Call& c) {
  const DType dtype = c.result_type({0, 1});
  const char* op = dtype == DType::kBool ? "logical_and" : "mul";
  return {{c.emit(op, {c.operand(0, dtype), c.operand(1, dtype)}), dtype}};
}

// Returns a path along which every gradient is zero.
Val nowhere(Call& c, Val a, Val b) {
  const Val never = c.scalar(DType::kBool, 0);
  return c.only_where(never, a) + c.only_where(never, b);
}

Values truncated_quotient(Call& c) {
  const DType common = c.result_type({0, 1}), dtype = float_type(c, common);
  const Val a = c.operand(0, dtype), b = c.operand(1, dtype);
  const Val whole = c.emit("trunc", {a / b});
  return {{c.cast(c.with_gradient(whole, nowhere(c, a, b)), common), common}};
}

Values divide(Call& c) {
  const DType common = c.result_type({0, 1});
  const std::string mode = c.given("rounding_mode") ? c.text("rounding_mode") : "";
  if (mode == "trunc") return in_f32(c, truncated_quotient);
  if (mode == "floor") {
    return {{c.emit("floor_div", {c.operand(0, common), c.operand(1, common)}), common}};
  }
  if (!mode.empty()) return {};
  const DType dtype = float_type(c, common);
  return {{c.operand(0, dtype) / c.operand(1, dtype), dtype}};
}

Values cube(Call& c) {
  const DType dtype = c.result_type({0, 1});
  const Val x = c.operand(0, dtype);
  return {{c.emit("square", {x}) * x, dtype}};
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
    if (exponent == 3) return in_f32(c, cube);
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

// Makes the row of a bitwise operator, which is the logical one on bools.
Rule bitwise(std::string suffix) {
  return [suffix](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    const std::string kind = dtype == DType::kBool ? "logical_" : "bitwise_";
    return {{c.emit(kind + suffix, {c.operand(0, dtype), c.operand(1, dtype)}), dtype}};
  };
}

Values where(Call& c) {
  const DType dtype = c.result_type({1, 2});
  const Val condition = truths(c, c.tensor(0), true);
  return {{c.emit("select", {condition, c.operand(1, dtype), c.operand(2, dtype)}), dtype}};
}

Values masked_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val mask = truths(c, c.tensor(1), false);
  return {{c.emit("select", {mask, c.operand(2, x.dtype), x.value}), x.dtype}};
}

// Clamps x between tensors, which have gradients. An element's gradient goes to x within the bounds
// (inclusive), else to the bound that applies. Where the bounds cross, that is the higher one.
Val clamp_by_tensors(Call& c, Val x, std::optional<Val> low, std::optional<Val> high) {
  Val y = x;
  if (low) y = c.emit("maximum", {y, *low});
  if (high) y = c.emit("minimum", {y, *high});
  if (!c.differentiates() || !ir::is_float(x.type().dtype)) return y;
  const auto both = [&](Val a, Val b) { return c.emit("logical_and", {a, b}); };
  std::optional<Val> inside, path;
  const auto add = [&](Val part) { path = path ? *path + part : part; };
  if (low) inside = c.emit("ge", {x, *low});
  if (high) {
    const Val below = c.emit("le", {x, *high});
    inside = inside ? both(*inside, below) : below;
  }
  add(c.only_where(*inside, x));
  if (low) {
    Val holds = c.emit("lt", {x, *low});
    if (high) holds = both(holds, c.emit("lt", {*low, *high}));
    add(c.only_where(holds, *low));
  }
  if (high) {
    Val holds = c.emit("gt", {x, *high});
    if (low) holds = c.emit("logical_or", {holds, c.emit("lt", {*high, *low})});
    add(c.only_where(holds, *high));
  }
  return c.with_gradient(y, c.broadcast(*path, y.type().shape));
}

Values clamp_between(Call& c, std::string_view low_name, std::string_view high_name) {
  const size_t low = c.index_of(low_name), high = c.index_of(high_name);
  const bool has_low = low != Call::kNone && c.given(low);
  const bool has_high = high != Call::kNone && c.given(high);
  if (!has_low && !has_high) c.fail("it needs a bound: give min, max or both.");
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
  const auto bound = [&](bool has, size_t argument) {
    return has ? std::optional(c.operand(argument, dtype)) : std::nullopt;
  };
  return {{clamp_by_tensors(c, x, bound(has_low, low), bound(has_high, high)), dtype}};
}

// Makes the row of input + value · (a op b).
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

// Scales by the greater side, so that no square overflows or underflows.
Values hypot(Call& c) {
  const DType dtype = float_type(c, c.result_type({0, 1}));
  const Val a = c.operand(0, dtype), b = c.operand(1, dtype), zero = c.scalar(dtype, 0);
  const Val a_size = c.emit("abs", {a}), b_size = c.emit("abs", {b});
  const Val greater = c.emit("maximum", {a_size, b_size});
  const Val lesser = c.emit("minimum", {a_size, b_size});
  const Val ratio = c.emit("select", {c.emit("eq", {greater, zero}), zero, lesser / greater});
  const Val finite = greater * c.emit("sqrt", {c.emit("square", {ratio}) + 1.0});
  const Val infinite = c.emit("logical_or", {c.emit("isinf", {a}), c.emit("isinf", {b})});
  const Val length = c.emit("select", {infinite, c.scalar(dtype, kInfinity), finite});
  return {{c.with_slopes(length, {{a, a / length}, {b, b / length}}), dtype}};
}

// Makes the row of fmax or fmin: a number wins over NaN, and the first operand over its equal.
Rule ignoring_nan(const char* first_wins) {
  return [first_wins](Call& c) -> Values {
    const DType dtype = c.result_type({0, 1});
    const Val a = c.operand(0, dtype), b = c.operand(1, dtype);
    Val takes_a = c.emit(first_wins, {a, b});
    if (ir::is_float(dtype)) takes_a = c.emit("logical_or", {takes_a, c.emit("isnan", {b})});
    return {{c.emit("select", {takes_a, a, b}), dtype}};
  };
}

// Computes the larger plus log(1 + exp(-|b - a|)); the difference of equal infinities counts as 0.
Values logaddexp(Call& c) {
  const DType dtype = float_type(c, c.result_type({0, 1}));
  const Val a = c.operand(0, dtype), b = c.operand(1, dtype);
  const Val apart = c.emit("select", {c.emit("eq", {a, b}), c.scalar(dtype, 0), b - a});
  const Val rest = c.emit("softplus", {-c.emit("abs", {apart})});
  const Val y = c.emit("maximum", {a, b}) + rest;
  const auto slope = [&](Val mine, Val other) {
    return 1.0 / (c.emit("exp", {other - mine}) + 1.0);
  };
  return {{c.with_slopes(y, {{a, slope(a, b)}, {b, slope(b, a)}}), dtype}};
}

}  // namespace

Val xlogy(Call& c, Val x, Val y) {
  const Val zero = c.scalar(x.type().dtype, 0);
  const Val is_zero = c.emit("eq", {x, zero}), log = c.emit("log", {y});
  const Val none = c.emit("logical_and", {is_zero, c.emit("eq", {y, y})});  // NaN stays
  const Val product = c.emit("select", {none, zero, x * log});
  const Val flat = c.emit("logical_and", {is_zero, c.emit("le", {y, zero})});
  const Val slope = c.emit("select", {flat, zero, log});
  return c.with_slopes(product, {{x, slope}, {y, x / y}});
}

void add_binary_rules(Rules& r) {
  r.add("add", sum("add", "logical_or", 0, 1));
  r.add("sub", sum("sub", "sub", 0, 1));
  r.add("rsub", sum("sub", "sub", 1, 0));
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
  for (const char* overload : {"other", "out"}) {
    r.add(support::str("max.", overload), direct_binary("maximum"));
    r.add(support::str("min.", overload), direct_binary("minimum"));
  }
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
  r.compose("addcmul", fused_sum("mul"));
  r.compose("addcdiv", fused_sum("div"));
  r.compose("lerp", lerp);
  r.compose("hypot", hypot);
  r.compose("xlogy", [](Call& c) -> Values {
    const DType dtype = float_type(c, c.result_type({0, 1}));
    return {{xlogy(c, c.operand(0, dtype), c.operand(1, dtype)), dtype}};
  });
  r.compose("logaddexp", logaddexp);
}

}  // namespace poptorch::frontend
