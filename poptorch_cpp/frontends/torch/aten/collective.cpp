// Rows of poptorch.distributed: collectives over groups of replicas. libtorch/distributed.cpp has
// checked that dimensions are not negative and that the group's size divides their elements.
#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

Attrs group_of(const Call& c) {
  return {{"group_size", c.integer("size")}, {"group_stride", c.integer("stride")}};
}

Attrs reduction_of(const Call& c) {
  Attrs attrs = group_of(c);
  attrs.set("op", c.text("op"));
  return attrs;
}

// Reshapes [..., size · n, ...] at `dim` to [size, ..., n, ...].
Val rows_of(Call& c, Value* x, int64_t dim) {
  const int64_t size = c.integer("size");
  Shape shape = x->type().shape;
  const auto at = shape.begin() + dim;
  *at /= size;
  shape.insert(at, size);
  Ints order{dim};
  for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
    if (axis != dim) order.push_back(axis);
  }
  return c.transpose(c.reshape(x, shape), order);
}

// Reshapes [size, ..., n, ...] to [..., size · n, ...] at `dim`.
Val lined_up(Call& c, Value* rows, int64_t dim) {
  Shape shape = rows->type().shape;
  Ints order;
  for (int64_t axis = 1; axis < static_cast<int64_t>(shape.size()); ++axis) {
    if (axis == dim + 1) order.push_back(0);
    order.push_back(axis);
  }
  shape.erase(shape.begin());
  shape[dim] *= c.integer("size");
  return c.reshape(c.transpose(rows, order), shape);
}

Values all_reduce(Call& c) {
  const TensorValue x = c.tensor(0);
  return {{c.emit("all_reduce", {x.value}, reduction_of(c)), x.dtype}};
}

Values all_gather(Call& c) {
  const TensorValue x = c.tensor(0);
  ir::Attrs attrs = group_of(c);
  attrs.set("grad_op", std::string("sum"));  // of the losses of all replicas
  const Val rows = c.emit("all_gather", {x.value}, attrs);
  return {{lined_up(c, rows, c.integer("dim")), x.dtype}};
}

Values reduce_scatter(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val rows = rows_of(c, x.value, c.integer("dim"));
  return {{c.emit("reduce_scatter", {rows}, reduction_of(c)), x.dtype}};
}

Values all_to_all(Call& c) {
  const TensorValue x = c.tensor(0);
  const Val rows = rows_of(c, x.value, c.integer("split_dim"));
  const Val received = c.emit("all_to_all", {rows}, group_of(c));
  return {{lined_up(c, received, c.integer("concat_dim")), x.dtype}};
}

}  // namespace

void add_collective_rules(Rules& r) {
  r.add("poptorch::all_reduce", all_reduce);
  r.add("poptorch::all_gather", all_gather);
  r.add("poptorch::reduce_scatter", reduce_scatter);
  r.add("poptorch::all_to_all", all_to_all);
}

}  // namespace poptorch::frontend
