// Rows of the operators of torch_scatter and torch_spline_conv, if a program has these packages.
// Their schemas do not name arguments: rows read them by number.
#include <limits>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Holds the arguments of scatter_*(src, index, dim, optional_out, dim_size).
struct Groups {
  TensorValue x;
  Val index;
  int64_t axis = 0;
  Shape shape;  // of the result

  explicit Groups(Call& c) : x(c.tensor(0)), axis(c.axis(c.number(2).integer, x.rank())) {
    if (c.given(3)) c.unsupported("a result to write into. Leave out the argument `out`.");
    if (!c.given(4)) c.unsupported("the number of groups, `dim_size`, must be given.");
    shape = x.shape();
    shape[axis] = c.number(4).integer;
    index = c.cast(c.tensor(1).value, DType::kI32);
    if (index.type().rank() == 1) {
      Shape along(shape.size(), 1);
      along[axis] = index.type().shape[0];
      index = c.reshape(index, along);
    }
    index = c.broadcast(index, x.shape());
  }

  Val scatter(Call& c, Val start, Val source, const char* reduction) const {
    return c.emit("scatter", {start, index, source},
                  {{"axis", axis}, {"reduction", std::string(reduction)}});
  }
  Val sum(Call& c, Val source) const {
    return scatter(c, c.full(shape, source.type().dtype, 0), source, "sum");
  }
  Val gather(Call& c, Val from) const { return c.emit("gather", {from, index}, {{"axis", axis}}); }
};

Values scatter_sum(Call& c) {
  const Groups g(c);
  return {{g.sum(c, c.val(g.x.value)), g.x.dtype}};
}

Values scatter_mean(Call& c) {
  const Groups g(c);
  const DType dtype = narrow(g.x.dtype);
  const Val counts = g.sum(c, c.full(g.x.shape(), dtype, 1));
  const Val at_least_one = c.emit("maximum", {counts, c.full(g.shape, dtype, 1)});
  const char* divide = ir::is_float(dtype) ? "div" : "floor_div";
  return {{c.emit(divide, {g.sum(c, c.val(g.x.value)), at_least_one}), g.x.dtype}};
}

// Multiplies per group; the gradient of an element is the product divided by the element.
Values scatter_mul(Call& c) {
  const Groups g(c);
  const Val x = c.val(g.x.value), held = c.emit("detach", {x});
  const Val product = g.scatter(c, c.full(g.shape, narrow(g.x.dtype), 1), held, "prod");
  if (!ir::is_float(g.x.dtype)) return {{product, g.x.dtype}};
  const Val slope = c.emit("detach", {g.gather(c, product) / held});
  return {{c.with_gradient(product, g.sum(c, x * slope)), g.x.dtype}};
}

// Returns the extreme of each group and its place along the axis, the first of equals. An empty
// group has 0 and the number of places.
Values extreme(Call& c, const char* reduction, double neutral) {
  const Groups g(c);
  const DType dtype = narrow(g.x.dtype);
  const Val x = c.val(g.x.value), held = c.emit("detach", {x});
  const int64_t places = g.x.shape()[g.axis];
  const double bound = ir::is_float(dtype) ? std::numeric_limits<double>::infinity() : 2147483647.0;
  const Val best = g.scatter(c, c.full(g.shape, dtype, neutral * bound), held, reduction);
  Shape along(g.shape.size(), 1);
  along[g.axis] = places;
  const Val numbers = c.emit("iota", {}, {{"dtype", DType::kI32}, {"size", places}});
  const Val own = c.broadcast(c.reshape(numbers, along), g.x.shape());
  const Val none = c.full(g.shape, DType::kI32, static_cast<double>(places));
  const Val chosen = c.emit("eq", {held, g.gather(c, best)});
  const Val candidates = c.emit(
      "select", {chosen, own, c.full(g.x.shape(), DType::kI32, static_cast<double>(places))});
  const Val place = g.scatter(c, none, candidates, "min");
  const Val last = c.full(g.shape, DType::kI32, static_cast<double>(places - 1));
  const Val picked = c.emit("gather", {x, c.emit("minimum", {place, last})}, {{"axis", g.axis}});
  const Val empty = c.emit("eq", {place, none});
  return {{c.emit("select", {empty, c.full(g.shape, dtype, 0), picked}), g.x.dtype},
          {place, DType::kI64}};
}

Values scatter_max(Call& c) { return extreme(c, "max", -1); }
Values scatter_min(Call& c) { return extreme(c, "min", 1); }

// Returns the pieces of a B-spline of a degree at places v in [0, 1): piece k at index k.
std::vector<Val> pieces(Call& c, Val v, int64_t degree) {
  const Val square = v * v;
  if (degree == 1) return {1.0 - v, v};
  if (degree == 2) return {square * 0.5 - v + 0.5, v - square + 0.5, square * 0.5};
  if (degree != 3) c.unsupported("splines of another degree than 1, 2 and 3.");
  const Val cube = square * v, rest = 1.0 - v;
  return {rest * rest * rest / 6.0, (cube * 3.0 - square * 6.0 + 4.0) / 6.0,
          (square * 3.0 - cube * 3.0 + v * 3.0 + 1.0) / 6.0, cube / 6.0};
}

// Returns a[i, j] op b[i, k] as [i, j · k]; k varies fastest.
Val crossed(Call& c, const char* op, Val a, Val b) {
  const int64_t rows = a.type().shape[0], j = a.type().shape[1], k = b.type().shape[1];
  const Val both = c.emit(op, {c.reshape(a, {rows, j, 1}), c.reshape(b, {rows, 1, k})});
  return c.reshape(both, {rows, j * k});
}

// Implements spline_basis(pseudo [edges, dimensions], kernel_size, is_open_spline, degree). Returns
// products of pieces along the dimensions, the first varying fastest, and their weights' indices.
Values spline_basis(Call& c) {
  const TensorValue pseudo = c.tensor(0);
  const DType dtype = narrow(pseudo.dtype);
  const int64_t edges = pseudo.shape()[0], dimensions = pseudo.shape()[1];
  const int64_t degree = c.number(3).integer;
  const Val sizes = c.cast(c.tensor(1).value, DType::kI32);
  const Val open = c.cast(c.tensor(2).value, dtype);
  Val basis = c.full({edges, 1}, dtype, 1), weights = c.full({edges, 1}, DType::kI32, 0);
  Val stride = c.full({1}, DType::kI32, 1);
  for (int64_t d = 0; d < dimensions; ++d) {
    const Val size = c.slice(sizes, 0, d, d + 1);
    const Val knots = c.cast(size, dtype) - c.slice(open, 0, d, d + 1) * double(degree);
    const Val place = c.slice(pseudo.value, 1, d, d + 1) * knots;
    const Val whole = c.emit("floor", {place});
    const Val first = c.cast(whole, DType::kI32);
    std::vector<Value*> columns, of_weights;
    for (const Val& piece : pieces(c, place - c.emit("detach", {whole}), degree)) {
      const Val offset = c.scalar(DType::kI32, static_cast<double>(columns.size()));
      of_weights.push_back(c.emit("remainder", {first + offset, size}) * stride);
      columns.push_back(piece);
    }
    basis = crossed(c, "mul", c.emit("concat", columns, {{"axis", int64_t{1}}}), basis);
    weights = crossed(c, "add", c.emit("concat", of_weights, {{"axis", int64_t{1}}}), weights);
    stride = stride * size;
  }
  return {{basis, pseudo.dtype}, {weights, DType::kI64}};
}

// Implements spline_weighting(x [edges, in], weight [weights, in, out], basis [edges, pieces],
// indices).
Values spline_weighting(Call& c) {
  const DType dtype = c.result_type({0, 1, 2});
  const Val x = c.operand(0, dtype), weight = c.operand(1, dtype), basis = c.operand(2, dtype);
  const int64_t edges = x.type().shape[0], in = x.type().shape[1];
  const int64_t pieces = basis.type().shape[1], out = weight.type().shape[2];
  const Val index = c.cast(c.tensor(3).value, DType::kI32);
  const Val picked =
      c.emit("index_select", {weight, c.reshape(index, {edges * pieces})}, {{"axis", int64_t{0}}});
  const Val scaled = c.reshape(x, {edges, 1, in}) * c.reshape(basis, {edges, pieces, 1});
  // One matrix product sums all pieces of an edge.
  const Val product = c.emit("matmul", {c.reshape(scaled, {edges, 1, pieces * in}),
                                        c.reshape(picked, {edges, pieces * in, out})});
  return {{c.reshape(product, {edges, out}), dtype}};
}

}  // namespace

void add_graph_rules(Rules& r) {
  r.compose("torch_scatter::scatter_sum", scatter_sum);
  r.compose("torch_scatter::scatter_mean", scatter_mean);
  r.compose("torch_scatter::scatter_mul", scatter_mul);
  r.add("torch_scatter::scatter_max", scatter_max);
  r.add("torch_scatter::scatter_min", scatter_min);
  r.compose("torch_spline_conv::spline_basis", spline_basis);
  r.compose("torch_spline_conv::spline_weighting", spline_weighting);
}

}  // namespace poptorch::frontend
