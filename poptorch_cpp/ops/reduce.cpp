// Reductions over axes, searches along one axis, and sorts.
#include <algorithm>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "ops/serial.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

InferRule reduces(std::optional<DType> result = std::nullopt) {
  return [result](const InferContext& c) {
    const Ints& axes = c.attr<Ints>("axes");
    checked_axes(c, axes, c.operand(0).rank());
    return std::vector{Type{result.value_or(c.operand(0).dtype),
                            reduced_shape(c.operand(0).shape, axes, c.attr<bool>("keepdims"))}};
  };
}

InferRule searches(std::vector<std::optional<DType>> results) {
  return [results](const InferContext& c) {
    int64_t axis = checked_axis(c, c.attr<int64_t>("axis"), c.operand(0).rank());
    Shape shape = reduced_shape(c.operand(0).shape, {axis}, c.attr<bool>("keepdims"));
    std::vector<Type> out;
    for (const auto& dtype : results) out.push_back({dtype.value_or(c.operand(0).dtype), shape});
    return out;
  };
}

// Restores the dropped axes of dy and broadcasts it to x's shape.
Val spread(GradBuilder& g, Val dy) {
  const Shape& full = g.x(0).type().shape;
  return broadcast_to(g, restore_axes(g, dy, full, g.attr<Ints>("axes")), full);
}

Val restored(GradBuilder& g, Val y) {
  return restore_axes(g, y, g.x(0).type().shape, g.attr<Ints>("axes"));
}

double reduced_count(GradBuilder& g) {
  double count = static_cast<double>(g.x(0).type().elements());
  return count / std::max<double>(1, static_cast<double>(g.y(0).type().elements()));
}

// Gives the gradient to the elements equal to the result, shared evenly as torch's amax does.
Val share_among_equal(GradBuilder& g, Val dy) {
  Val x = g.x(0);
  Val hit = g.emit("cast", {g.emit("eq", {x, restored(g, g.y(0))})}, {{"dtype", x.type().dtype}});
  Val count = g.emit("sum", {hit}, {{"axes", g.attr<Ints>("axes")}, {"keepdims", true}});
  return hit * (restored(g, dy) / count);
}

Val number_like(GradBuilder& g, Val x, double number) {
  return {g.builder().scalar(x.type().dtype, number), &g.builder()};
}

// d prod / d x_i is the product of the others: y / x_i if no element is zero. If one element is
// zero, only its own derivative is not zero.
Val product_of_others(GradBuilder& g, Val dy) {
  const Ints& axes = g.attr<Ints>("axes");
  Val x = g.x(0), zero = number_like(g, x, 0), one = number_like(g, x, 1);
  Val is_zero = g.emit("eq", {x, zero}), safe = g.emit("select", {is_zero, one, x});
  Val zeros = g.emit("sum", {g.emit("cast", {is_zero}, {{"dtype", x.type().dtype}})},
                     {{"axes", axes}, {"keepdims", true}});
  Val others = g.emit("prod", {safe}, {{"axes", axes}, {"keepdims", true}});
  Val alone = g.emit("select", {g.emit("eq", {zeros, one}), others, zero});
  return g.emit("select", {is_zero, alone, restored(g, g.y(0)) / safe}) * restored(g, dy);
}

void add_reduction(Registry& r, const char* name, const char* doc, const char* operand,
                   decltype(OpDef::grad) grad, const char* popart,
                   std::optional<DType> result = std::nullopt, bool exact = false) {
  r.add({.name = name,
         .doc = doc,
         .inputs = {operand},
         .outputs = {"y"},
         .attrs = {{"axes", AttrType::kInts}, {"keepdims", AttrType::kBool, false}},
         .infer = reduces(result),
         .grad = std::move(grad),
         .cost = per_operand_element(1),
         .exact = exact,
         .popart_type = popart});
}

void add_reductions(Registry& r) {
  add_reduction(r, "sum", "Sum over the axes.", "x: number", grad1(spread), "ReduceSum");
  add_reduction(r, "mean", "Mean over the axes.", "x: float",
                grad1([](GradBuilder& g, Val dy) { return spread(g, dy / reduced_count(g)); }),
                "ReduceMean");
  add_reduction(r, "max", "The greatest over the axes; nan wins.", "x: any",
                grad1_in_f32(share_among_equal), "ReduceMax", std::nullopt, true);
  add_reduction(r, "min", "The least over the axes; nan wins.", "x: any",
                grad1_in_f32(share_among_equal), "ReduceMin", std::nullopt, true);
  add_reduction(r, "prod", "Product over the axes.", "x: number", grad1_in_f32(product_of_others),
                "ReduceProd");
  add_reduction(r, "logsumexp", "log Σ exp(x) over the axes.", "x: float",
                grad1_in_f32([](GradBuilder& g, Val dy) {
                  return g.emit("exp", {g.x(0) - restored(g, g.y(0))}) * restored(g, dy);
                }),
                "ReduceLogSumExp");
  NoGradient truth{"its result is a truth value"};
  add_reduction(r, "any", "True if any is not zero.", "x: any", truth, "ReduceAny", DType::kBool);
  add_reduction(r, "all", "True if none is zero.", "x: any", truth, "ReduceAll", DType::kBool);
}

void add_searches(Registry& r) {
  struct Row {
    const char *name, *popart;
  };
  for (const auto& [name, popart] : {Row{"argmax", "ArgMax"}, Row{"argmin", "ArgMin"}}) {
    r.add({.name = name,
           .doc = "The index of the greatest (least) element along the axis; the first of equals.",
           .inputs = {"x: any"},
           .outputs = {"indices"},
           .attrs = {{"axis", AttrType::kInt}, {"keepdims", AttrType::kBool, false}},
           .infer = searches({DType::kI32}),
           .grad = NoGradient{"its result is an index"},
           .cost = per_operand_element(1),
           .popart_type = popart});
  }
}

// The gradient of an op that picks elements of x by its second result: dy returns to the picked
// places.
std::vector<Value*> put_back(GradBuilder& g) {
  Val dy = g.dy(0);
  Val zero{g.builder().scalar(dy.type().dtype, 0.0), &g.builder()};
  Val base = broadcast_to(g, zero, g.x(0).type().shape);
  return {g.emit("scatter", {base, g.y(1), dy},
                 {{"axis", g.attr<int64_t>("axis")}, {"reduction", std::string("sum")}})};
}

void add_orders(Registry& r) {
  r.add({.name = "sort",
         .doc = "Elements in order along the axis, and the indices where they stood.",
         .inputs = {"x: any"},
         .outputs = {"values", "indices"},
         .attrs = {{"axis", AttrType::kInt},
                   {"descending", AttrType::kBool, false},
                   {"stable", AttrType::kBool, false}},
         .infer =
             [](const InferContext& c) {
               checked_axis(c, c.attr<int64_t>("axis"), c.operand(0).rank());
               return std::vector{c.operand(0), Type{DType::kI32, c.operand(0).shape}};
             },
         .grad = put_back,
         .cost = along_axis(per_operand_element(20), sort_steps),
         .exact = true,
         .popart_type = "Sort"});
  r.add({.name = "topk",
         .doc = "The k greatest (least) along the axis, in order, and their indices.",
         .inputs = {"x: any"},
         .outputs = {"values", "indices"},
         .attrs = {at_least(0, {"k", AttrType::kInt}),
                   {"axis", AttrType::kInt},
                   {"largest", AttrType::kBool, true},
                   {"sorted", AttrType::kBool, true}},
         .infer =
             [](const InferContext& c) {
               int64_t axis = checked_axis(c, c.attr<int64_t>("axis"), c.operand(0).rank());
               int64_t k = c.attr<int64_t>("k");
               Shape shape = c.operand(0).shape;
               if (shape.empty()) c.fail("a scalar has no axis. Reshape it to [1].");
               if (k > shape[axis]) {
                 c.fail(str("k is ", k, " but the axis has ", shape[axis], " elements."));
               }
               shape[axis] = k;
               return std::vector{Type{c.operand(0).dtype, shape}, Type{DType::kI32, shape}};
             },
         .grad = put_back,
         .cost = per_operand_element(10),
         .exact = true,
         .popart_type = "TopK"});
}

}  // namespace

void add_reduce_ops(Registry& r) {
  add_reductions(r);
  add_searches(r);
  add_orders(r);
}

}  // namespace poptorch::ops
