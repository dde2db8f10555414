// aten rows of reductions, scans, sorting and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/torch/aten/kinds.hpp"
#include "frontends/torch/aten/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

Val reduce(Call& c, const char* op, Val x, const Ints& axes, bool keepdims) {
  if (axes.empty()) return c.emit("identity", {x});
  return c.emit(op, {x}, {{"axes", axes}, {"keepdims", keepdims}});
}

bool keepdim(Call& c) { return c.flag("keepdim", false); }

// Returns the dtype of a sum: i64 for integers, as in torch.
DType sum_type(Call& c, DType dtype) {
  const bool is_whole = dtype == DType::kBool || ir::is_integer(dtype);
  return c.dtype("dtype").value_or(is_whole ? DType::kI64 : dtype);
}

Rule sums(const char* op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    const DType dtype = sum_type(c, x.dtype);
    return {{reduce(c, op, c.cast(x.value, dtype), c.axes("dim", x.rank()), keepdim(c)), dtype}};
  };
}

Values mean(Call& c) {
  const TensorValue x = c.tensor(0);
  const DType dtype = floats(c, c.dtype("dtype").value_or(x.dtype), "the mean");
  return {{reduce(c, "mean", c.cast(x.value, dtype), c.axes("dim", x.rank()), keepdim(c)), dtype}};
}

Rule extremum(const char* op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    return {{reduce(c, op, c.val(x.value), c.axes("dim", x.rank()), keepdim(c)), x.dtype}};
  };
}

// Makes the row of max or min of all elements. Equal extremes share the gradient, and so do NaN
// elements where the result is NaN.
Rule extremum_of_all(const char* op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    const Val given = c.val(x.value);
    const Ints axes = c.axes("", x.rank());
    const Val y = reduce(c, op, given, axes, false);
    if (!c.differentiates() || !ir::is_float(x.dtype) || axes.empty()) return {{y, x.dtype}};
    const Val both_nan = c.emit("logical_and", {c.emit("isnan", {y}), c.emit("isnan", {given})});
    const Val is_it = c.emit("logical_or", {c.emit("eq", {given, y}), both_nan});
    const Val count = c.emit("sum", {c.cast(is_it, DType::kF32)}, {{"axes", axes}});
    const Val chosen = c.emit("sum", {c.only_where(is_it, given)}, {{"axes", axes}});
    const Val share = c.emit("detach", {c.cast(c.scalar(DType::kF32, 1) / count, x.dtype)});
    return {{c.with_gradient(y, chosen * share), x.dtype}};
  };
}

// Makes the row of max.dim or min.dim, which reads the value at the index, so that the gradient
// goes to that one element.
Rule extremum_with_index(const char* op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    if (x.rank() == 0) {
      return {{c.emit("identity", {x.value}), x.dtype}, {c.scalar(DType::kI64, 0), DType::kI64}};
    }
    const int64_t axis = c.axis(c.integer("dim"), x.rank());
    const Val index = c.emit(op, {x.value}, {{"axis", axis}, {"keepdims", true}});
    const Val value = c.emit("gather", {x.value, index}, {{"axis", axis}});
    if (keepdim(c)) return {{value, x.dtype}, {index, DType::kI64}};
    Shape shape = x.shape();
    shape.erase(shape.begin() + axis);
    return {{c.reshape(value, shape), x.dtype}, {c.reshape(index, shape), DType::kI64}};
  };
}

Rule index_of_extremum(const char* op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    if (x.rank() == 0) return {{c.scalar(DType::kI64, 0), DType::kI64}};
    if (c.given("dim")) {
      const int64_t axis = c.axis(c.integer("dim"), x.rank());
      return {{c.emit(op, {x.value}, {{"axis", axis}, {"keepdims", keepdim(c)}}), DType::kI64}};
    }
    const Val flat = c.reshape(x.value, {x.value->type().elements()});
    const Val index = c.emit(op, {flat}, {{"axis", int64_t{0}}, {"keepdims", false}});
    return {{keepdim(c) ? c.reshape(index, Shape(x.rank(), 1)) : index, DType::kI64}};
  };
}

// Makes the row of any or all. Unlike in other reductions, dim=() reduces nothing. Results for
// bytes are bytes.
Rule tests(const char* op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    const DType dtype = x.dtype == DType::kU8 ? DType::kU8 : DType::kBool;
    const Val truth = c.cast(x.value, DType::kBool);
    const bool none = c.given("dim") && c.is_list(c.index_of("dim")) && c.ints("dim").empty();
    const Ints axes = none ? Ints{} : c.axes("dim", x.rank());
    return {{c.cast(reduce(c, op, truth, axes, keepdim(c)), dtype), dtype}};
  };
}

Values count_nonzero(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val ones = c.cast(c.cast(x.value, DType::kBool), DType::kI64);
  return {{reduce(c, "sum", ones, c.axes("dim", x.rank()), false), DType::kI64}};
}

Rule scan(const char* op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    const DType dtype = sum_type(c, x.dtype);
    if (x.rank() == 0) return {{c.emit("identity", {c.cast(x.value, dtype)}), dtype}};
    const int64_t axis = c.axis(c.integer("dim"), x.rank());
    return {{c.emit(op, {c.cast(x.value, dtype)}, {{"axis", axis}}), dtype}};
  };
}

Values logsumexp(Call& c) {
  const TensorValue x = c.tensor(0);
  const DType dtype = ir::is_float(x.dtype) ? x.dtype : c.default_float();
  return {
      {reduce(c, "logsumexp", c.cast(x.value, dtype), c.axes("dim", x.rank()), keepdim(c)), dtype}};
}

struct Moments {
  Val mean, variance;
};

Moments moments(Call& c, TensorValue x) {
  const Ints axes = c.axes("dim", x.rank());
  int64_t count = 1;
  for (const int64_t axis : axes) count *= x.shape()[axis];
  double correction = 1;
  if (c.index_of("correction") != Call::kNone) correction = c.real("correction", 1.0);
  if (c.index_of("unbiased") != Call::kNone) correction = c.flag("unbiased", true) ? 1 : 0;
  const Val mean = reduce(c, "mean", c.val(x.value), axes, true);
  const Val squares = c.emit("square", {c.val(x.value) - mean});
  const Val total = reduce(c, "sum", squares, axes, keepdim(c));
  const Val kept_mean = keepdim(c) ? mean : c.reshape(mean, total.type().shape);
  return {kept_mean, total / std::max(static_cast<double>(count) - correction, 0.0)};
}

// Returns total to the power of `power`; its gradient at 0 is 0 instead of infinite, as in torch.
Val root_of(Call& c, Val total, double power) {
  const DType dtype = total.type().dtype;
  const Val none = c.emit("eq", {total, c.scalar(dtype, 0)});
  const Val some = c.emit("select", {none, c.scalar(dtype, 1), total});
  const Val root =
      power == 0.5 ? c.emit("sqrt", {some}) : c.emit("pow", {some, c.scalar(dtype, power)});
  return c.emit("select", {none, c.scalar(dtype, 0), root});
}

Values var(Call& c) { return {{moments(c, c.tensor(0)).variance, c.tensor(0).dtype}}; }

// Returns the root of the variance. Scales deviations by the greatest, so no square overflows.
Val deviation(Call& c, const TensorValue& x) {
  const Ints axes = c.axes("dim", x.rank());
  const Val given = c.val(x.value), zero = c.scalar(x.dtype, 0);
  const Val apart = c.emit("abs", {given - reduce(c, "mean", given, axes, true)});
  const Val most = c.emit("detach", {reduce(c, "max", apart, axes, true)});
  const Val usable = c.emit(
      "logical_not", {c.emit("logical_or", {c.emit("eq", {most, zero}), c.emit("isinf", {most})})});
  const Val unit = c.emit("select", {usable, most, c.scalar(x.dtype, 1)});
  const Val root = root_of(c, moments(c, {given / unit, x.dtype}).variance, 0.5);
  return root * c.reshape(unit, root.type().shape);
}

Values standard_deviation(Call& c) { return {{deviation(c, c.tensor(0)), c.tensor(0).dtype}}; }

Values var_mean(Call& c) {
  const Moments m = moments(c, c.tensor(0));
  return {{m.variance, c.tensor(0).dtype}, {m.mean, c.tensor(0).dtype}};
}

Values std_mean(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val mean = moments(c, x).mean;
  return {{deviation(c, x), x.dtype}, {mean, x.dtype}};
}

// Returns the derivative of torch's norms: that of (Σ|x|ᵖ)^(1/p), but zero where the norm is zero
// (for p < 1: where x is zero).
Val norm_slope(Call& c, Val x, Val norm, double order) {
  const DType dtype = x.type().dtype;
  const auto zero_where = [&](Val is_zero, Val of) {
    const Val none = c.emit("eq", {is_zero, c.scalar(dtype, 0)});
    return c.emit("select", {none, c.scalar(dtype, 0), of});
  };
  const auto power = [&](Val base, double exponent) {
    return c.emit("pow", {base, c.scalar(dtype, exponent)});
  };
  const Val size = c.emit("abs", {x}), sign = c.emit("sign", {x});
  if (order < 1) {
    return zero_where(x, sign * power(size, order - 1)) * power(norm, 1 - order);
  }
  const Val own = order < 2 ? sign * power(size, order - 1) : x * power(size, order - 2);
  return own * zero_where(norm, 1.0 / power(norm, order - 1));
}

// Removes the reduced dimensions, which `kept` still has, unless keepdim is set.
Val without_axes(Call& c, Val kept, const Ints& axes) {
  if (keepdim(c)) return kept;
  Shape shape = kept.type().shape;
  for (const int64_t axis : axes) shape[axis] = 0;
  std::erase(shape, 0);
  return c.reshape(kept, shape);
}

// Returns the norm of infinite order. Elements of that size share the gradient, NaN among them.
Val greatest_or_least(Call& c, Val x, Val size, const Ints& axes, bool greatest) {
  const Val norm = reduce(c, greatest ? "max" : "min", size, axes, true);
  const Val both_nan = c.emit("logical_and", {c.emit("isnan", {size}), c.emit("isnan", {norm})});
  const Val is_it = c.emit("logical_or", {c.emit("eq", {size, norm}), both_nan});
  const Val hits = c.cast(is_it, x.type().dtype);
  const Val slope = c.emit("sign", {x}) * hits / reduce(c, "sum", hits, axes, true);
  const Val path = reduce(c, "sum", x * c.emit("detach", {slope}), axes, true);
  return without_axes(c, c.with_gradient(norm, path), axes);
}

Values vector_norm(Call& c, double order) {
  TensorValue x = c.tensor(0);
  x.dtype = floats(c, c.dtype("dtype").value_or(x.dtype), "the norm");
  const Ints axes = c.axes("dim", x.rank());
  const bool keep = keepdim(c);
  const Val value = c.cast(x.value, x.dtype);
  if (order == 2) {
    const Val total = reduce(c, "sum", c.emit("square", {value}), axes, keep);
    return {{root_of(c, total, 0.5), x.dtype}};
  }
  const Val size = c.emit("abs", {value});
  if (order == 1) return {{reduce(c, "sum", size, axes, keep), x.dtype}};
  if (std::isinf(order)) return {{greatest_or_least(c, value, size, axes, order > 0), x.dtype}};
  if (order == 0) {
    const Val nonzero = c.cast(c.emit("ne", {value, c.scalar(x.dtype, 0)}), x.dtype);
    return {{reduce(c, "sum", nonzero, axes, keep), x.dtype}};
  }
  const Val powers = c.emit("pow", {size, c.scalar(x.dtype, order)});
  const Val total = reduce(c, "sum", powers, axes, true);
  const Val norm = c.emit("pow", {total, c.scalar(x.dtype, 1.0 / order)});
  const Val path = value * c.emit("detach", {norm_slope(c, value, norm, order)});
  const Val joint = c.with_gradient(norm, reduce(c, "sum", path, axes, true));
  return {{without_axes(c, joint, axes), x.dtype}};
}

Values sort(Call& c) {
  const TensorValue x = c.tensor(0);
  if (x.rank() == 0) return {x, {c.scalar(DType::kI64, 0), DType::kI64}};
  ir::Op* op = c.builder().emit("sort", {x.value},
                                {{"axis", c.axis(c.integer("dim", -1), x.rank())},
                                 {"descending", c.flag("descending", false)},
                                 {"stable", true}});
  return {{op->result(0), x.dtype}, {op->result(1), DType::kI64}};
}

Values argsort(Call& c) { return {sort(c).at(1)}; }

Values topk(Call& c) {
  const TensorValue x = c.tensor(0);
  if (x.rank() == 0 && c.integer("k") != 1) return {};
  if (x.rank() == 0) return {x, {c.scalar(DType::kI64, 0), DType::kI64}};
  ir::Op* op = c.builder().emit("topk", {x.value},
                                {{"k", c.integer("k")},
                                 {"axis", c.axis(c.integer("dim", -1), x.rank())},
                                 {"largest", c.flag("largest", true)},
                                 {"sorted", c.flag("sorted", true)}});
  return {{op->result(0), x.dtype}, {op->result(1), DType::kI64}};
}

Rule softmax(const char* op) {
  return [op](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    const DType dtype = floats(c, c.dtype("dtype").value_or(x.dtype), op);
    const Val value = c.cast(x.value, dtype);
    if (x.rank() == 0) {
      const Val flat = c.emit(op, {c.reshape(value, {1})}, {{"axis", int64_t{0}}});
      return {{c.reshape(flat, {}), dtype}};
    }
    const int64_t axis = c.axis(c.integer("dim"), x.rank());
    return {{c.emit(op, {value}, {{"axis", axis}}), dtype}};
  };
}

// Computes a softmax that gives zeros instead of NaN for rows of -infinity only.
Values safe_softmax(Call& c) {
  const TensorValue given = c.tensor(0);
  const DType dtype = floats(c, c.dtype("dtype").value_or(given.dtype), "softmax");
  const Shape shape = at_least_a_vector(given.shape());
  const Val x = c.reshape(c.cast(given.value, dtype), shape);
  const int64_t axis = c.axis(c.integer("dim"), given.rank());
  const Val lowest = c.scalar(dtype, -std::numeric_limits<double>::infinity());
  const Val zero = c.scalar(dtype, 0);
  const Val off = c.emit("eq", {reduce(c, "max", x, {axis}, true), lowest});
  const Val y = c.emit("softmax", {c.emit("select", {off, zero, x})}, {{"axis", axis}});
  return {{c.reshape(c.emit("select", {off, zero, y}), given.shape()), dtype}};
}

}  // namespace

void add_reduce_rules(Rules& r) {
  r.add("sum", sums("sum"));
  r.add("prod", sums("prod"));
  r.add("mean", mean);
  r.add("amax", extremum("max"));
  r.add("amin", extremum("min"));
  r.add("max", extremum_of_all("max"));
  r.add("min", extremum_of_all("min"));
  for (const char* name : {"max.dim", "max.dim_max"}) r.add(name, extremum_with_index("argmax"));
  for (const char* name : {"min.dim", "min.dim_min"}) r.add(name, extremum_with_index("argmin"));
  r.add("argmax", index_of_extremum("argmax"));
  r.add("argmin", index_of_extremum("argmin"));
  r.add("any", tests("any"));
  r.add("all", tests("all"));
  r.add("count_nonzero", count_nonzero);
  r.add("cumsum", scan("cumsum"));
  r.add("cumprod", scan("cumprod"));
  r.add("logsumexp", logsumexp);
  r.compose("var", var);
  r.compose("std", standard_deviation);
  r.compose("var_mean", var_mean);
  r.compose("std_mean", std_mean);
  r.compose("linalg_vector_norm", [](Call& c) { return vector_norm(c, c.real("ord", 2.0)); });
  r.compose("norm", [](Call& c) { return vector_norm(c, c.real("p", 2.0)); });
  r.add("sort", sort);
  r.add("argsort", argsort);
  r.add("topk", topk);
  r.add("softmax.int", softmax("softmax"));
  r.add("_softmax", softmax("softmax"));
  r.add("_safe_softmax", safe_softmax);
  r.add("log_softmax.int", softmax("log_softmax"));
  r.add("_log_softmax", softmax("log_softmax"));
}

}  // namespace poptorch::frontend
