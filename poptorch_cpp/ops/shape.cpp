// Ops that move elements without computing: views, joins, slices, pads.
#include <algorithm>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

Shape sliced_shape(const InferContext& c, const Shape& x) {
  const Ints &starts = c.attr<Ints>("starts"), &stops = c.attr<Ints>("stops"),
             &steps = c.attr<Ints>("steps");
  if (starts.size() != x.size() || stops.size() != x.size() || steps.size() != x.size()) {
    c.fail(str("starts, stops and steps need ", x.size(), " numbers each."));
  }
  Shape out;
  for (size_t i = 0; i < x.size(); ++i) {
    if (stops[i] > x[i] || starts[i] > stops[i]) {
      c.fail(str("slice ", starts[i], ":", stops[i], ":", steps[i], " is out of range for ", x[i],
                 " elements of axis ", i, "."));
    }
    out.push_back((stops[i] - starts[i] + steps[i] - 1) / steps[i]);
  }
  return out;
}

ir::Attrs slice_attrs(const GradBuilder& g) {
  return {{"starts", g.attr<Ints>("starts")},
          {"stops", g.attr<Ints>("stops")},
          {"steps", g.attr<Ints>("steps")}};
}

std::vector<ir::AttrDef> slice_defs() {
  return {at_least(0, {"starts", AttrType::kInts}), at_least(0, {"stops", AttrType::kInts}),
          at_least(1, {"steps", AttrType::kInts})};
}

void add_views(Registry& r) {
  r.add(
      {.name = "reshape",
       .doc = "The same elements in row-major order under another shape.",
       .role = Role::kView,
       .inputs = {"x"},
       .outputs = {"y"},
       .attrs = {at_least(0, {"shape", AttrType::kInts})},
       .infer =
           [](const InferContext& c) {
             const Ints& shape = c.attr<Ints>("shape");
             const std::string defect = ir::defect_of(shape);
             if (!defect.empty()) c.fail(defect);
             if (ir::element_count(shape) != c.operand(0).elements()) {
               c.fail(str("cannot give ", ir::shape_text(c.operand(0).shape), " the shape ",
                          ir::shape_text(shape), ": the number of elements differs."));
             }
             return std::vector{Type{c.operand(0).dtype, shape}};
           },
       .grad = grad1([](GradBuilder& g, Val dy) { return reshape_to(g, dy, g.x(0).type().shape); }),
       .cost = no_cost(),
       .popart_type = "Reshape"});
  r.add({.name = "transpose",
         .doc = "Axis i of the result is axis permutation[i] of x.",
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = {{"permutation", AttrType::kInts}},
         .infer =
             [](const InferContext& c) {
               Ints order = c.attr<Ints>("permutation");
               Type out{c.operand(0).dtype, {}};
               Ints sorted = order;
               std::sort(sorted.begin(), sorted.end());
               for (size_t i = 0; i < sorted.size(); ++i) {
                 if (sorted[i] != static_cast<int64_t>(i))
                   c.fail("permutation must contain each axis once.");
               }
               if (static_cast<int64_t>(order.size()) != c.operand(0).rank()) {
                 c.fail(
                     str("permutation has ", order.size(), " axes but x is ", c.operand(0), "."));
               }
               for (int64_t axis : order) out.shape.push_back(c.operand(0).shape[axis]);
               return std::vector{out};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           const Ints& order = g.attr<Ints>("permutation");
           Ints inverse(order.size());
           for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
           return g.emit("transpose", {dy}, {{"permutation", inverse}});
         }),
         .cost = moves_data(),
         .popart_type = "Transpose"});
  r.add({.name = "broadcast_to",
         .doc = "x repeated to `shape` as NumPy broadcasts.",
         .role = Role::kBroadcast,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = {at_least(0, {"shape", AttrType::kInts})},
         .infer =
             [](const InferContext& c) {
               const Ints& shape = c.attr<Ints>("shape");
               if (ir::broadcast(c.operand(0).shape, shape) != shape) {
                 c.fail(str(ir::shape_text(c.operand(0).shape), " does not broadcast to ",
                            ir::shape_text(shape), "."));
               }
               return std::vector{Type{c.operand(0).dtype, shape}};
             },
         .grad = grad1([](GradBuilder& g, Val dy) { return g.unbroadcast(dy, g.x(0).type()); }),
         .cost = moves_data(),
         .popart_type = "Expand"});
  r.add({.name = "reverse",
         .doc = "The elements of each named axis in reverse order.",
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = {{"axes", AttrType::kInts}},
         .infer =
             [](const InferContext& c) {
               checked_axes(c, c.attr<Ints>("axes"), c.operand(0).rank());
               return std::vector{c.operand(0)};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           return g.emit("reverse", {dy}, {{"axes", g.attr<Ints>("axes")}});
         }),
         .cost = moves_data(),
         .popart_type = "Reverse"});
}

std::vector<Type> infer_concat(const InferContext& c) {
  if (c.operand_count() == 0) c.fail("needs at least one operand.");
  Type out = c.operand(0);
  int64_t axis = checked_axis(c, c.attr<int64_t>("axis"), out.rank());
  for (size_t i = 1; i < c.operand_count(); ++i) {
    const Type& x = c.operand(i);
    Shape expected = out.shape;
    if (x.rank() == out.rank()) expected[axis] = x.shape[axis];
    if (x.dtype != out.dtype || x.shape != expected) {
      c.fail(str("operand ", i, " is ", x, " but operand 0 is ", c.operand(0),
                 ": they may differ along axis ", axis, " only."));
    }
    out.shape[axis] += x.shape[axis];
  }
  return {out};
}

std::vector<Value*> concat_gradient(GradBuilder& g) {
  const int64_t axis = g.attr<int64_t>("axis");
  const Shape& full = g.y(0).type().shape;
  std::vector<Value*> out;
  int64_t at = 0;
  for (size_t i = 0; i < g.op().operand_count(); ++i) {
    Ints starts(full.size(), 0), stops(full.begin(), full.end()), steps(full.size(), 1);
    starts[axis] = at;
    stops[axis] = at += g.x(i).type().shape[axis];
    out.push_back(!g.needs(i) ? nullptr
                              : g.emit("slice", {g.dy(0)},
                                       {{"starts", starts}, {"stops", stops}, {"steps", steps}})
                                    .value);
  }
  return out;
}

void add_slices(Registry& r) {
  r.add({.name = "concat",
         .doc = "The operands one after the other along the axis.",
         .inputs = {"xs: any*"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt}},
         .infer = infer_concat,
         .grad = concat_gradient,
         .cost = moves_data(),
         .popart_type = "Concat"});
  r.add({.name = "slice",
         .doc = "Elements start, start + step, ... before stop of every axis.",
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = slice_defs(),
         .infer =
             [](const InferContext& c) {
               return std::vector{Type{c.operand(0).dtype, sliced_shape(c, c.operand(0).shape)}};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           Val zero{g.builder().scalar(dy.type().dtype, 0.0), dy.builder};
           return g.emit("insert_slice", {broadcast_to(g, zero, g.x(0).type().shape), dy},
                         slice_attrs(g));
         }),
         .cost = moves_data(),
         .popart_type = "Slice"});
  r.add({.name = "insert_slice",
         .doc = "x with the slice replaced by src.",
         .inputs = {"x", "src: x"},
         .outputs = {"y"},
         .attrs = slice_defs(),
         .infer =
             [](const InferContext& c) {
               require_shape(c, 1, sliced_shape(c, c.operand(0).shape));
               return std::vector{c.operand(0)};
             },
         .grad =
             [](GradBuilder& g) {
               Val dy = g.dy(0);
               Val dsrc = g.emit("slice", {dy}, slice_attrs(g));
               Val zero{g.builder().scalar(dy.type().dtype, 0.0), dy.builder};
               Val hole = broadcast_to(g, zero, dsrc.type().shape);
               return std::vector<Value*>{g.emit("insert_slice", {dy, hole}, slice_attrs(g)), dsrc};
             },
         .cost = moves_data(),
         .popart_type = "SliceInplace"});
}

// Returns the shape of `x` with low and high elements more along each axis; with `sign` -1, less.
Shape padded_shape(const InferContext& c, int64_t sign) {
  const Ints &low = c.attr<Ints>("low"), &high = c.attr<Ints>("high");
  Shape out = c.operand(0).shape;
  if (low.size() != out.size() || high.size() != out.size()) {
    c.fail(str("low and high need ", out.size(), " numbers each."));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = checked_size(c, Wide{out[i]} + sign * (Wide{low[i]} + high[i]));
  }
  return out;
}

// Checks that the padded tensor has the elements that padding copies.
void check_copies(const InferContext& c, const Shape& x) {
  const Ints &low = c.attr<Ints>("low"), &high = c.attr<Ints>("high");
  const std::string& mode = c.attr<std::string>("mode");
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t most = INT64_MAX;
    if (mode == "reflect") most = std::max<int64_t>(x[i] - 1, 0);
    if (mode == "replicate" && x[i] == 0) most = 0;
    if (mode == "circular") most = x[i];
    if (low[i] > most || high[i] > most) {
      c.fail(str("padding ", low[i], " and ", high[i], " does not fit axis ", i, " of ",
                 ir::shape_text(x), ": mode '", mode, "' adds at most ", most,
                 " elements on each side."));
    }
  }
}

std::vector<Type> infer_pad(const InferContext& c) {
  const Shape out = padded_shape(c, 1);
  check_copies(c, c.operand(0).shape);
  return {Type{c.operand(0).dtype, out}};
}

std::vector<Type> infer_pad_grad(const InferContext& c) {
  const Shape x = padded_shape(c, -1);
  check_copies(c, x);
  return {Type{c.operand(0).dtype, x}};
}

Val pad_gradient(GradBuilder& g, Val dy) {
  const Ints& low = g.attr<Ints>("low");
  const Shape& x = g.x(0).type().shape;
  if (g.attr<std::string>("mode") != "constant") {
    return g.emit(
        "pad_grad", {dy},
        {{"low", low}, {"high", g.attr<Ints>("high")}, {"mode", g.attr<std::string>("mode")}});
  }
  Ints stops, steps(x.size(), 1);
  for (size_t i = 0; i < x.size(); ++i) stops.push_back(low[i] + x[i]);
  return g.emit("slice", {dy}, {{"starts", low}, {"stops", stops}, {"steps", steps}});
}

void add_pads(Registry& r) {
  const ir::AttrDef mode{"mode",
                         AttrType::kString,
                         std::string("constant"),
                         {"constant", "reflect", "replicate", "circular"}};
  r.add({.name = "pad",
         .doc = "x with `low` and `high` elements added before and after each axis.",
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = {at_least(0, {"low", AttrType::kInts}),
                   at_least(0, {"high", AttrType::kInts}),
                   {"value", AttrType::kFloat, 0.0},
                   mode},
         .infer = infer_pad,
         .grad = grad1(pad_gradient),
         .cost = moves_data(),
         .popart_type = "Pad"});
  r.add({.name = "pad_grad",
         .doc = "dy summed back to the elements that a pad copied.",
         .inputs = {"dy: float"},
         .outputs = {"dx"},
         .attrs = {at_least(0, {"low", AttrType::kInts}), at_least(0, {"high", AttrType::kInts}),
                   mode},
         .infer = infer_pad_grad,
         .grad = grad1([](GradBuilder& g, Val v) {
           return g.emit("pad", {v},
                         {{"low", g.attr<Ints>("low")},
                          {"high", g.attr<Ints>("high")},
                          {"mode", g.attr<std::string>("mode")}});
         }),
         .cost = per_operand_element(1),
         .popart_type = "PadGrad"});
}

}  // namespace

void add_shape_ops(Registry& r) {
  add_views(r);
  add_slices(r);
  add_pads(r);
}

}  // namespace poptorch::ops
