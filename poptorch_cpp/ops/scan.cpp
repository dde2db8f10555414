// Scans: each element of the result follows from the one before it along an axis.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "ops/serial.hpp"

namespace poptorch::ops {
namespace {

// Returns v moved by one element along the axis, to higher indices or to lower ones; the element
// without a source is `fill`.
Val moved(GradBuilder& g, Val v, int64_t axis, bool up, double fill = 0) {
  const Shape& shape = v.type().shape;
  const auto at = static_cast<size_t>(axis);
  if (shape[at] == 0) return v;
  Ints starts(shape.size(), 0), stops = shape, steps(shape.size(), 1), low(shape.size(), 0);
  Ints high = low;
  (up ? stops[at] : starts[at]) += up ? -1 : 1;
  (up ? low[at] : high[at]) = 1;
  const Val kept = g.emit("slice", {v}, {{"starts", starts}, {"stops", stops}, {"steps", steps}});
  return g.emit("pad", {kept}, {{"low", low}, {"high", high}, {"value", fill}});
}

Val reversed_sum(GradBuilder& g, Val dy) {
  const Ints axes{g.attr<int64_t>("axis")};
  const Val flipped = g.emit("reverse", {dy}, {{"axes", axes}});
  const Val sum = g.emit("cumsum", {flipped}, {{"axis", axes[0]}});
  return g.emit("reverse", {sum}, {{"axes", axes}});
}

// dx_i = y_{i-1} s_i, where s_i = dy_i + x_{i+1} s_{i+1}: without a division, it holds for zeros.
// The products are computed again, because those of half types are rounded.
Val product_gradient(GradBuilder& g, Val dy) {
  const int64_t axis = g.attr<int64_t>("axis");
  const Val s = g.emit("linear_recurrence", {moved(g, g.x(0), axis, false), dy},
                       {{"axis", axis}, {"reverse", true}});
  const Val y = g.emit("cumprod", {g.x(0)}, {{"axis", axis}});
  return moved(g, y, axis, true, 1) * s;
}

// If y_i = a_i y_{i-1} + b_i, then db_i = dy_i + a_{i+1} db_{i+1} and da_i = y_{i-1} db_i.
std::vector<Value*> recurrence_gradient(GradBuilder& g) {
  const int64_t axis = g.attr<int64_t>("axis");
  const bool reverse = g.attr<bool>("reverse");
  const Val db = g.emit("linear_recurrence", {moved(g, g.x(0), axis, reverse), g.dy(0)},
                        {{"axis", axis}, {"reverse", !reverse}});
  return {moved(g, g.y(0), axis, !reverse) * db, db};
}

std::vector<Type> same_as_first(const InferContext& c) {
  checked_axis(c, c.attr<int64_t>("axis"), c.operand(0).rank());
  return {c.operand(0)};
}

void add_running(Registry& r, const char* name, const char* doc, decltype(OpDef::grad) grad,
                 const char* popart) {
  r.add({.name = name,
         .doc = doc,
         .inputs = {"x: number"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt}},
         .infer = same_as_first,
         .grad = std::move(grad),
         .cost = along_axis(per_element(1), scan_steps),
         .popart_type = popart});
}

}  // namespace

void add_scan_ops(Registry& r) {
  add_running(r, "cumsum", "Running sum along the axis.", grad1(reversed_sum), "CumSum");
  add_running(r, "cumprod", "Running product along the axis.", grad1_in_f32(product_gradient), "");
  r.add({.name = "linear_recurrence",
         .doc = "y_i = a_i y_{i-1} + b_i along the axis, or a_i y_{i+1} + b_i if `reverse`.",
         .inputs = {"a: float", "b: a"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt}, {"reverse", AttrType::kBool, false}},
         .infer =
             [](const InferContext& c) {
               require_shape(c, 1, c.operand(0).shape);
               return same_as_first(c);
             },
         .grad = recurrence_gradient,
         .cost = along_axis(per_element(2), scan_steps)});
}

}  // namespace poptorch::ops
