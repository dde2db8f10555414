// aten rows that gather and scatter elements by index tensors. IR indices are i32; negative ones
// count from the end where torch allows it.
#include <limits>

#include "frontends/torch/aten/kinds.hpp"
#include "frontends/torch/aten/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

Val indices(Call& c, const TensorValue& x) { return whole_numbers(c, x, "indices"); }

// Counts how often each of `size` rows occurs in `index`, a vector of non-negative row numbers.
Val hits(Call& c, Val index, int64_t size) {
  const Val ones = c.full(index.type().shape, DType::kF32, 1);
  return c.emit("index_add", {c.full({size}, DType::kF32, 0), index, ones}, {{"axis", int64_t{0}}});
}

Values embedding(Call& c) {
  const TensorValue weight = c.tensor(0);
  const Val rows = indices(c, c.tensor(1));
  const int64_t count = weight.shape().at(0);
  int64_t padding = c.integer("padding_idx", -1);
  if (c.given("padding_idx") && padding < -1) padding += count;
  const Val y = c.emit("embedding", {weight.value, rows}, {{"padding_index", padding}});
  if (!c.differentiates() || !c.flag("scale_grad_by_freq", false)) return {{y, weight.dtype}};
  const Val flat = c.reshape(rows, {rows.type().elements()});
  const Val times = c.emit("index_select", {hits(c, flat, count), flat}, {{"axis", int64_t{0}}});
  Shape column = rows.type().shape;
  column.push_back(1);
  const Val share = c.cast(1.0 / c.reshape(times, column), weight.dtype);
  return {{c.with_slopes(y, {{y, share}}), weight.dtype}};
}

Values gather(Call& c) {
  const TensorValue x = c.tensor(0), index = c.tensor("index");
  if (x.rank() == 0) return {{c.broadcast(x.value, index.shape()), x.dtype}};
  const int64_t axis = c.axis(c.integer("dim"), x.rank());
  return {{c.emit("gather", {x.value, indices(c, index)}, {{"axis", axis}}), x.dtype}};
}

// Gathers with tensor and indices broadcast along the other axes. torch's composite implementation
// accepts only int64 indices.
Values take_along_dim(Call& c) {
  const TensorValue x = c.tensor(0), index = c.tensor("indices");
  Val from = c.val(x.value);
  if (!c.given("dim")) {
    const int64_t size = from.type().elements();
    const Val places = c.reshape(c.wrapped_indices(index, size), {index.value->type().elements()});
    return {{c.emit("gather", {c.reshape(from, {size}), places}, {{"axis", int64_t{0}}}), x.dtype}};
  }
  const auto dim = static_cast<size_t>(c.axis(c.integer("dim"), x.rank()));
  if (index.rank() != x.rank()) {
    c.fail(support::str("the tensor has ", x.rank(), " dimensions and its indices ", index.rank(),
                        ". Both numbers must be equal."));
  }
  Shape others = x.shape(), together = index.shape();
  others.at(dim) = together.at(dim) = 1;
  const auto joint = ir::broadcast(others, together);
  if (!joint) {
    c.fail(support::str("the tensor, ", ir::shape_text(x.shape()), ", and its indices, ",
                        ir::shape_text(index.shape()), ", do not broadcast together."));
  }
  const auto spread = [&](Val value) {
    Shape shape = *joint;
    shape.at(dim) = value.type().shape.at(dim);
    return c.broadcast(value, shape);
  };
  const Val places = spread(c.wrapped_indices(index, x.shape().at(dim)));
  const auto axis = static_cast<int64_t>(dim);
  return {{c.emit("gather", {spread(from), places}, {{"axis", axis}}), x.dtype}};
}

// Returns the leading part of the source: scatter's index may be smaller than its source.
Val leading_part(Call& c, Val source, const Shape& shape) {
  const Shape& whole = source.type().shape;
  if (whole == shape) return source;
  bool fits = whole.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) fits = shape[d] <= whole[d];
  if (!fits) {
    c.fail(support::str("the index has the shape ", ir::shape_text(shape), ", and the source ",
                        ir::shape_text(whole), ": it may not be larger in any dimension."));
  }
  return c.emit("slice", {source},
                {{"starts", Ints(shape.size(), 0)},
                 {"stops", Ints(shape)},
                 {"steps", Ints(shape.size(), 1)}});
}

Val scatter_op(Call& c, Val x, Val index, Val source, int64_t axis, const std::string& reduction) {
  const Shape shape = x.type().shape;
  if (shape.empty()) x = c.reshape(x, {1});
  if (index.type().rank() == 0) {  // torch treats a scalar as a vector
    index = c.reshape(index, {1});
    source = c.reshape(source, {source.type().elements()});
  }
  const Val result = c.emit("scatter", {x, index, leading_part(c, source, index.type().shape)},
                            {{"axis", axis}, {"reduction", reduction}});
  return shape.empty() ? c.reshape(result, shape) : result;
}

std::string reduction_of(Call& c, std::string_view argument) {
  if (!c.given(argument)) return "none";
  const std::string given = c.text(argument);
  if (given == "add" || given == "sum") return "sum";
  if (given == "multiply" || given == "prod") return "prod";
  if (given == "amax") return "max";
  if (given == "amin") return "min";
  c.unsupported(
      support::str("reduction '", given, "' is not supported. Use sum, prod, amax or amin."));
}

Values scatter(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val index = indices(c, c.tensor("index"));
  const int64_t axis = c.axis(c.integer("dim"), x.rank());
  const Val source = c.index_of("src") != Call::kNone
                         ? c.cast(c.tensor("src").value, x.dtype)
                         : c.broadcast(c.operand(c.index_of("value"), x.dtype), index.type().shape);
  return {{scatter_op(c, c.val(x.value), index, source, axis, reduction_of(c, "reduce")), x.dtype}};
}

Values scatter_add(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t axis = c.axis(c.integer("dim"), x.rank());
  const Val source = c.cast(c.tensor("src").value, x.dtype);
  return {
      {scatter_op(c, c.val(x.value), indices(c, c.tensor("index")), source, axis, "sum"), x.dtype}};
}

// Returns the reduction's neutral element, from which a position starts without its old value.
double neutral(const std::string& reduction, DType dtype) {
  if (reduction == "sum") return 0;
  if (reduction == "prod") return 1;
  if (dtype == DType::kBool) return reduction == "max" ? 0 : 1;
  const double bound = ir::is_float(dtype) ? std::numeric_limits<double>::infinity() : 2147483647.0;
  return reduction == "max" ? -bound : bound;
}

// Implements scatter_reduce(self, dim, index, src, reduce, include_self), mean included.
Values scatter_reduce(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val index = indices(c, c.tensor("index"));
  const int64_t axis = c.axis(c.integer("dim"), x.rank());
  const Val source = leading_part(c, c.cast(c.tensor("src").value, x.dtype), index.type().shape);
  const bool include_self = c.flag("include_self", true);
  const bool is_mean = c.text("reduce") == "mean";
  const std::string reduction = is_mean ? "sum" : reduction_of(c, "reduce");
  if (c.training() && reduction != "sum") return {};  // scatter's gradient is that of sums
  const Val old = c.val(x.value);
  const Val zeros = c.full(x.shape(), DType::kF32, 0);
  const Val ones = c.full(index.type().shape, DType::kF32, 1);
  Val base = old;
  Val hits = zeros;
  if (is_mean || !include_self) hits = scatter_op(c, zeros, index, ones, axis, "sum");
  const Val untouched = c.emit("eq", {hits, zeros});
  if (!include_self) {
    base =
        c.emit("select", {untouched, old, c.full(x.shape(), x.dtype, neutral(reduction, x.dtype))});
  }
  const Val result = scatter_op(c, base, index, source, axis, reduction);
  if (!is_mean) return {{result, x.dtype}};
  const Val counts =
      include_self ? hits + 1.0 : c.emit("maximum", {hits, c.full(x.shape(), DType::kF32, 1)});
  return {{c.emit(ir::is_float(x.dtype) ? "div" : "floor_div", {result, c.cast(counts, x.dtype)}),
           x.dtype}};
}

Values index_select(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val index = indices(c, c.tensor("index"));
  if (x.rank() == 0) return {{c.emit("identity", {x.value}), x.dtype}};
  const int64_t axis = c.axis(c.integer("dim"), x.rank());
  const Val flat = c.reshape(index, {index.type().elements()});
  return {{c.emit("index_select", {x.value, flat}, {{"axis", axis}}), x.dtype}};
}

Values index_add(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t axis = c.axis(c.integer("dim"), x.rank());
  const Val index = indices(c, c.tensor("index"));
  const int64_t count = index.type().elements();
  Shape shape = at_least_a_vector(x.shape());
  const Val base = c.reshape(x.value, shape);
  shape[axis] = count;
  Val source = c.reshape(c.cast(c.tensor("source").value, x.dtype), shape);
  if (c.real("alpha", 1.0) != 1.0) source = source * c.real("alpha");
  const Val sum = c.emit("index_add", {base, c.reshape(index, {count}), source}, {{"axis", axis}});
  return {{c.reshape(sum, x.shape()), x.dtype}};
}

// Fills each row once, even if the index names it several times.
Values index_fill(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t axis = c.axis(c.integer("dim"), x.rank());
  const Shape whole = at_least_a_vector(x.shape());
  const Val index = c.wrapped_indices(c.tensor("index"), whole[axis]);
  const Val times = hits(c, c.reshape(index, {index.type().elements()}), whole[axis]);
  Shape shape(whole.size(), 1);
  shape[axis] = whole[axis];
  const Val chosen = c.reshape(c.cast(times, DType::kBool), shape);
  const Val value = c.operand(c.index_of("value"), x.dtype);
  const Val filled = c.emit("select", {chosen, value, c.reshape(x.value, whole)});
  return {{c.reshape(filled, x.shape()), x.dtype}};
}

Values take(Call& c) {
  const TensorValue x = c.tensor(0), index = c.tensor("index");
  const int64_t count = x.value->type().elements();
  const Val flat_index =
      c.reshape(c.wrapped_indices(index, count), {index.value->type().elements()});
  const Val picked =
      c.emit("index_select", {c.reshape(x.value, {count}), flat_index}, {{"axis", int64_t{0}}});
  return {{c.reshape(picked, index.shape()), x.dtype}};
}

Values one_hot(Call& c) {
  const int64_t classes = c.integer("num_classes", -1);
  if (classes < 1) c.fail("OneHot num classes must be specified and must be constant.");
  const Val index = indices(c, c.tensor(0));
  return {
      {c.emit("one_hot", {index}, {{"classes", classes}, {"dtype", DType::kI32}}), DType::kI64}};
}

Values bincount(Call& c) {
  const TensorValue x = c.tensor(0), weights = c.tensor("weights");
  const int64_t bins = c.integer("minlength", 0);
  if (bins < 1) {
    c.fail(
        "Bincount `minlength` must be specified and must be a constant. On the IPU MK2 platform "
        "the minimum length is also the maximum length.");
  }
  DType dtype = DType::kI64;
  if (weights) dtype = ir::is_float(weights.dtype) ? weights.dtype : c.default_float();
  const Val counted = weights ? c.cast(weights.value, dtype) : c.full(x.shape(), dtype, 1);
  const Val total = c.emit("index_add", {c.full({bins}, dtype, 0), indices(c, x), counted},
                           {{"axis", int64_t{0}}});
  return {{total, dtype}};
}

// Returns the index of the boundary at which torch's bisection ends. For sorted boundaries it is
// the first one at or above each value (right: above). NaN is above everything.
Values bucketize(Call& c) {
  const size_t other = c.index_of("boundaries");
  const DType dtype = c.result_type({0, other});
  const Shape shape = c.tensor(0).shape();
  const int64_t elements = ir::element_count(shape), count = c.tensor(other).shape().at(0);
  const Val x = c.reshape(c.operand(0, dtype), {elements}), bounds = c.operand(other, dtype);
  const char* stays = c.flag("right", false) ? "gt" : "ge";
  Val low = c.full({elements}, DType::kI32, 0);
  Val high = c.full({elements}, DType::kI32, static_cast<double>(count));
  const Val last = c.scalar(DType::kI32, static_cast<double>(count - 1));
  for (int64_t left = count; left > 0; left /= 2) {
    const Val half = c.emit("floor_div", {high - low, c.scalar(DType::kI32, 2)});
    const Val middle = c.emit("minimum", {low + half, last});
    const Val bound = c.emit("index_select", {bounds, middle}, {{"axis", int64_t{0}}});
    const Val is_open = c.emit("lt", {low, high}), is_left = c.emit(stays, {bound, x});
    const Val goes_left = c.emit("logical_and", {is_open, is_left});
    const Val goes_right = c.emit("logical_and", {is_open, c.emit("logical_not", {is_left})});
    low = c.emit("select", {goes_right, middle + 1.0, low});
    high = c.emit("select", {goes_left, middle, high});
  }
  return {{c.reshape(low, shape), c.flag("out_int32", false) ? DType::kI32 : DType::kI64}};
}

}  // namespace

void add_index_rules(Rules& r) {
  r.add("embedding", embedding);
  r.add("gather", gather);
  r.add("take_along_dim", take_along_dim);
  r.add("scatter", scatter);
  r.add("scatter_add", scatter_add);
  r.add("scatter_reduce", scatter_reduce);
  r.add("index_select", index_select);
  r.add("index_add", index_add);
  r.add("index_fill", index_fill);
  r.add("take", take);
  r.add("one_hot", one_hot);
  r.add("bincount", bincount);
  r.add("bucketize.Tensor", bucketize);
}

}  // namespace poptorch::frontend
