// aten rows of one operand, and casts.
#include <cmath>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Makes the row of a rounding op, which returns integers as they are.
Rule rounding(std::string op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    if (!ir::is_float(x.dtype)) return {x};
    return {{c.emit(op, {x.value}), x.dtype}};
  };
}

// Rounds to `decimals` digits after the point; negative numbers mean digits before it.
Values round_decimals(Call& c) {
  const TensorValue x = c.tensor(0);
  if (!ir::is_float(x.dtype)) return {x};
  const auto decimals = static_cast<double>(c.integer("decimals", 0));
  const Val ten = c.scalar(x.dtype, std::pow(10.0, std::abs(decimals)));
  const char *there = decimals >= 0 ? "mul" : "div", *back = decimals >= 0 ? "div" : "mul";
  const Val whole = c.emit("round", {c.emit(there, {x.value, ten})});
  return {{c.emit(back, {whole, ten}), x.dtype}};
}

// Makes the row of a test of floats, which is false for integers.
Rule float_test(std::string op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    if (!ir::is_float(x.dtype)) return {{c.full(x.shape(), DType::kBool, 0), DType::kBool}};
    return {{c.emit(op, {x.value}), DType::kBool}};
  };
}

Values logical_not(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{c.emit("logical_not", {c.cast(x.value, DType::kBool)}), DType::kBool}};
}

Values bitwise_not(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{c.emit(x.dtype == DType::kBool ? "logical_not" : "bitwise_not", {x.value}), x.dtype}};
}

Values isfinite(Call& c) {
  const TensorValue x = c.tensor(0);
  if (!ir::is_float(x.dtype)) return {{c.full(x.shape(), DType::kBool, 1), DType::kBool}};
  const Val wrong = c.emit("logical_or", {c.emit("isnan", {x.value}), c.emit("isinf", {x.value})});
  return {{c.emit("logical_not", {wrong}), DType::kBool}};
}

Values frac(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{c.val(x.value) - c.emit("trunc", {x.value}), x.dtype}};
}

Values exp2(Call& c) {
  const DType dtype = ir::is_float(c.tensor(0).dtype) ? c.tensor(0).dtype : c.default_float();
  return {{c.emit("pow", {c.scalar(dtype, 2), c.operand(0, dtype)}), dtype}};
}

Values to_copy(Call& c) {
  const TensorValue x = c.tensor(0);
  const DType dtype = c.dtype("dtype").value_or(x.dtype);
  if (narrow(dtype) == narrow(x.dtype)) return {{c.emit("identity", {x.value}), dtype}};
  return {{c.cast(x.value, dtype), dtype}};
}

Values nan_to_num(Call& c) {
  const TensorValue x = c.tensor(0);
  if (!ir::is_float(x.dtype)) return {x};
  const double largest = x.dtype == DType::kF16    ? 65504.0
                         : x.dtype == DType::kBF16 ? 3.3895313892515355e38
                                                   : 3.4028234663852886e38;
  if (!c.given("posinf") && !c.given("neginf")) {
    const Val given = c.val(x.value);
    const Val finite = c.emit("clamp", {given}, {{"low", -largest}, {"high", largest}});
    const Val is_nan = c.emit("ne", {given, given});
    return {{c.emit("select", {is_nan, c.scalar(x.dtype, c.real("nan", 0.0)), finite}), x.dtype}};
  }
  const auto or_else = [&](const Val& when, double value, const Val& otherwise) {
    return c.emit("select", {when, c.scalar(x.dtype, value), otherwise});
  };
  const Val given = c.val(x.value), infinite = c.emit("isinf", {given});
  const Val positive = c.emit("gt", {given, c.scalar(x.dtype, 0)});
  const Val low = or_else(infinite, c.real("neginf", -largest), given);
  const Val high =
      or_else(c.emit("logical_and", {infinite, positive}), c.real("posinf", largest), low);
  return {{or_else(c.emit("isnan", {given}), c.real("nan", 0.0), high), x.dtype}};
}

// Implements poptorch.recomputationCheckpoint.
Values checkpoint(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{c.emit("identity", {x.value}, {{"checkpoint", true}}), x.dtype}};
}

// Implements poptorch.set_overlap_for_input and set_overlap_for_output.
Values overlap(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{c.emit("identity", {x.value}, {{"host", c.text("host")}, {"overlap", c.text("loop")}}),
           x.dtype}};
}

}  // namespace

void add_elementwise_rules(Rules& r) {
  for (const char* op :
       {"exp",   "expm1", "log",   "log1p",   "log2", "log10",  "sqrt",  "rsqrt", "reciprocal",
        "sin",   "cos",   "tan",   "asin",    "acos", "atan",   "sinh",  "cosh",  "tanh",
        "asinh", "acosh", "atanh", "sigmoid", "erf",  "erfinv", "lgamma"}) {
    r.add(op, direct_float(op));
  }
  for (const char* op : {"neg", "abs", "sign", "square"}) r.add(op, direct(op));
  for (const char* op : {"ceil", "floor", "round", "trunc"}) r.add(op, rounding(op));
  r.compose("round.decimals", round_decimals);
  r.add("sgn", direct("sign"));
  r.add("special_expit", direct_float("sigmoid"));
  r.add("special_erf", direct_float("erf"));
  r.add("isnan", float_test("isnan"));
  r.add("isinf", float_test("isinf"));
  r.add("isfinite", isfinite);
  r.add("logical_not", logical_not);
  r.add("bitwise_not", bitwise_not);
  r.compose("frac", frac);
  r.add("exp2", exp2);
  r.add("clone", direct("identity"));
  r.add("poptorch::recomputation_checkpoint", checkpoint);
  r.add("poptorch::set_overlap", overlap);
  r.add("_to_copy", to_copy);
  r.add("nan_to_num", nan_to_num);
}

}  // namespace poptorch::frontend
