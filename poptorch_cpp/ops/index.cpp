// Reading and writing by index tensors. Indices are i32 and not negative; one out of range reads
// zeros and writes nothing.
#include <algorithm>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

int64_t axis_of(const InferContext& c) {
  if (c.operand(0).rank() == 0) c.fail("a scalar has no axis to index along. Reshape it to [1].");
  return checked_axis(c, c.attr<int64_t>("axis"), c.operand(0).rank());
}

ir::Attrs same_axis(const GradBuilder& g) { return {{"axis", g.attr<int64_t>("axis")}}; }

using IndexOperands = std::vector<ir::IndexOperand>;

// Declares that operand 1 chooses along the attribute `axis` of operand 0.
IndexOperands along_axis(const Op& op) {
  const auto axis = static_cast<size_t>(op.attr<int64_t>("axis"));
  return {{1, op.operand(0)->type().shape[axis]}};
}

// Declares that operands from `first` on choose along the leading axes of operand 0.
std::function<IndexOperands(const Op&)> leading_axes(size_t first) {
  return [first](const Op& op) {
    IndexOperands found;
    for (size_t i = first; i < op.operand_count(); ++i) {
      found.push_back({i, op.operand(0)->type().shape[i - first]});
    }
    return found;
  };
}

// Declares that operand `start` is the first of `size` consecutive places of operand 0.
std::function<IndexOperands(const Op&)> starts(size_t start) {
  return [start](const Op& op) -> IndexOperands {
    const auto axis = static_cast<size_t>(op.attr<int64_t>("axis"));
    const int64_t size = start == 1 ? op.attr<int64_t>("size") : op.operand(1)->type().shape[axis];
    return {{start, op.operand(0)->type().shape[axis] - size + 1}};
  };
}

Val zeros(GradBuilder& g, const Type& type) {
  return broadcast_to(g, {g.builder().scalar(type.dtype, 0.0), &g.builder()}, type.shape);
}

void add_embedding(Registry& r) {
  const ir::AttrDef padding{"padding_index", AttrType::kInt, int64_t{-1}};
  r.add({.name = "embedding",
         .doc = "Row w[i] for every index i; the row of padding_index gets no gradient.",
         .inputs = {"w: float", "indices: i32"},
         .outputs = {"y"},
         .attrs = {padding},
         .infer =
             [](const InferContext& c) {
               if (c.operand(0).rank() != 2)
                 c.fail(str("w must be a matrix but is ", c.operand(0), "."));
               Shape shape = c.operand(1).shape;
               shape.push_back(c.operand(0).shape[1]);
               return std::vector{Type{c.operand(0).dtype, shape}};
             },
         .grad =
             [](GradBuilder& g) {
               return std::vector<Value*>{
                   g.emit("embedding_grad", {g.dy(0), g.x(1)},
                          {{"rows", g.x(0).type().shape[0]},
                           {"padding_index", g.attr<int64_t>("padding_index")}}),
                   nullptr};
             },
         .cost = moves_data(),
         .popart_type = "Gather"});
  r.add({.name = "embedding_grad",
         .doc = "dy summed into the rows that embedding read.",
         .inputs = {"dy: float", "indices: i32"},
         .outputs = {"dw"},
         .attrs = {at_least(0, {"rows", AttrType::kInt}), padding},
         .infer =
             [](const InferContext& c) {
               require_rank(c, 0, 1);
               Shape shape = c.operand(1).shape;
               shape.push_back(c.operand(0).shape.back());
               require_shape(c, 0, shape);
               return std::vector{
                   Type{c.operand(0).dtype, {c.attr<int64_t>("rows"), c.operand(0).shape.back()}}};
             },
         .grad = grad1([](GradBuilder& g, Val v) {
           const auto padding_index = g.attr<int64_t>("padding_index");
           const Val rows = g.emit("embedding", {v, g.x(1)});
           if (padding_index < 0) return rows;
           Val index{g.builder().scalar(DType::kI32, static_cast<double>(padding_index)),
                     &g.builder()};
           Shape shape = g.x(1).type().shape;
           shape.push_back(1);
           const Val counts = reshape_to(g, g.emit("ne", {g.x(1), index}), shape);
           Val zero{g.builder().scalar(v.type().dtype, 0), &g.builder()};
           return g.emit("select", {counts, rows, zero});
         }),
         .cost = per_operand_element(1),
         .popart_type = "GatherGrad"});
}

// Requires indices along an axis of x, one for each element of the other axes or of a part of them.
void require_indices(const InferContext& c) {
  const Shape &x = c.operand(0).shape, &indices = c.operand(1).shape;
  const auto axis = static_cast<size_t>(axis_of(c));
  bool fits = indices.size() == x.size();
  for (size_t i = 0; fits && i < x.size(); ++i) fits = i == axis || indices[i] <= x[i];
  if (fits) return;
  c.fail(str("indices ", c.operand(1), " must have the rank of x ", c.operand(0),
             " and be no larger but along axis ", axis, "."));
}

void add_gathers(Registry& r) {
  r.add({.name = "gather",
         .doc = "y[..., i, ...] = x[..., indices[..., i, ...], ...] along the axis (torch.gather).",
         .inputs = {"x", "indices: i32"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt}},
         .infer =
             [](const InferContext& c) {
               require_indices(c);
               return std::vector{Type{c.operand(0).dtype, c.operand(1).shape}};
             },
         .grad =
             [](GradBuilder& g) {
               ir::Attrs attrs = same_axis(g);
               attrs.set("reduction", std::string("sum"));
               return std::vector<Value*>{
                   g.emit("scatter", {zeros(g, g.x(0).type()), g.x(1), g.dy(0)}, attrs), nullptr};
             },
         .cost = moves_data(),
         .popart_type = "GatherElements",
         .indices = along_axis});
  r.add({.name = "scatter",
         .doc = "x with src written (or reduced) to indices along the axis (torch.scatter).",
         .inputs = {"x", "indices: i32", "src: x"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt},
                   {"reduction",
                    AttrType::kString,
                    std::string("none"),
                    {"none", "sum", "max", "min", "prod"}}},
         .infer =
             [](const InferContext& c) {
               require_indices(c);
               require_shape(c, 2, c.operand(1).shape);
               return std::vector{c.operand(0)};
             },
         .grad =
             [](GradBuilder& g) {
               const auto& reduction = g.attr<std::string>("reduction");
               if (reduction != "none" && reduction != "sum") {
                 throw support::UnsupportedError(
                     str("[autodiff] scatter with reduction '", reduction,
                         "' has no gradient here. Use 'sum', or detach its result."));
               }
               Val dsrc = g.emit("gather", {g.dy(0), g.x(1)}, same_axis(g));
               if (reduction == "sum") return std::vector<Value*>{g.dy(0), nullptr, dsrc};
               ir::Attrs attrs = same_axis(g);
               Val hole = g.emit("scatter", {g.dy(0), g.x(1), zeros(g, g.x(2).type())}, attrs);
               return std::vector<Value*>{hole, nullptr, dsrc};
             },
         .cost = moves_data(),
         .popart_type = "Scatter",
         .indices = along_axis});
}

void add_selects(Registry& r) {
  r.add({.name = "index_select",
         .doc = "Slices of x along the axis, in the order of the indices.",
         .inputs = {"x", "indices: i32"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt}},
         .infer =
             [](const InferContext& c) {
               int64_t axis = axis_of(c);
               Shape shape = c.operand(0).shape;
               require_rank(c, 1, 1, 1);
               shape[axis] = c.operand(1).shape[0];
               return std::vector{Type{c.operand(0).dtype, shape}};
             },
         .grad =
             [](GradBuilder& g) {
               return std::vector<Value*>{
                   g.emit("index_add", {zeros(g, g.x(0).type()), g.x(1), g.dy(0)}, same_axis(g)),
                   nullptr};
             },
         .cost = moves_data(),
         .popart_type = "Gather",
         .indices = along_axis});
  r.add({.name = "index_add",
         .doc = "x with slices of src added along the axis at the indices, in order.",
         .inputs = {"x: number", "indices: i32", "src: x"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt}},
         .infer =
             [](const InferContext& c) {
               Shape expected = c.operand(0).shape;
               require_rank(c, 1, 1, 1);
               expected[axis_of(c)] = c.operand(1).shape[0];
               require_shape(c, 2, expected);
               return std::vector{c.operand(0)};
             },
         .grad =
             [](GradBuilder& g) {
               return std::vector<Value*>{g.dy(0), nullptr,
                                          g.emit("index_select", {g.dy(0), g.x(1)}, same_axis(g))};
             },
         .cost = moves_data(),
         .popart_type = "ScatterReduce",
         .indices = along_axis});
}

// Returns the shape of x[indices...]: the indices' broadcast shape, then x's remaining axes.
Shape indexed_shape(const InferContext& c, size_t first) {
  const Shape& x = c.operand(0).shape;
  const size_t count = c.operand_count() - first;
  if (count == 0 || count > x.size()) c.fail(str(count, " index tensors for ", c.operand(0), "."));
  Shape shape = c.operand(first).shape;
  for (size_t i = first + 1; i < c.operand_count(); ++i) {
    auto joined = ir::broadcast(shape, c.operand(i).shape);
    if (!joined) c.fail("the index tensors do not broadcast together.");
    shape = *joined;
  }
  shape.insert(shape.end(), x.begin() + static_cast<int64_t>(count), x.end());
  return shape;
}

void add_fancy(Registry& r) {
  r.add({.name = "index",
         .doc = "x[i, j, ...]: one index tensor for each leading axis, broadcast together.",
         .inputs = {"x", "indices: i32*"},
         .outputs = {"y"},
         .infer =
             [](const InferContext& c) {
               return std::vector{Type{c.operand(0).dtype, indexed_shape(c, 1)}};
             },
         .grad =
             [](GradBuilder& g) {
               std::vector<Value*> operands = {zeros(g, g.x(0).type()), g.dy(0)};
               for (size_t i = 1; i < g.op().operand_count(); ++i) operands.push_back(g.x(i));
               std::vector<Value*> out(g.op().operand_count(), nullptr);
               out[0] = g.emit("index_put", operands, {{"accumulate", true}});
               return out;
             },
         .cost = moves_data(),
         .indices = leading_axes(1)});
  r.add({.name = "index_put",
         .doc = "x with x[i, j, ...] replaced by the values, or increased by them, in order.",
         .inputs = {"x", "values: x", "indices: i32*"},
         .outputs = {"y"},
         .attrs = {{"accumulate", AttrType::kBool, false}},
         .infer =
             [](const InferContext& c) {
               require_shape(c, 1, indexed_shape(c, 2));
               return std::vector{c.operand(0)};
             },
         .grad =
             [](GradBuilder& g) {
               std::vector<Value*> indices;
               for (size_t i = 2; i < g.op().operand_count(); ++i) indices.push_back(g.x(i));
               std::vector<Value*> read = {g.dy(0)}, hole = {g.dy(0), zeros(g, g.x(1).type())};
               read.insert(read.end(), indices.begin(), indices.end());
               hole.insert(hole.end(), indices.begin(), indices.end());
               std::vector<Value*> out(g.op().operand_count(), nullptr);
               out[0] = g.attr<bool>("accumulate") ? g.dy(0) : g.emit("index_put", hole);
               out[1] = g.emit("index", read);
               return out;
             },
         .cost = moves_data(),
         .indices = leading_axes(2)});
  r.add({.name = "one_hot",
         .doc = "1 at the index along a new last axis, 0 elsewhere.",
         .inputs = {"indices: i32"},
         .outputs = {"y"},
         .attrs = {at_least(0, {"classes", AttrType::kInt}), {"dtype", AttrType::kDType}},
         .infer =
             [](const InferContext& c) {
               Shape shape = c.operand(0).shape;
               shape.push_back(c.attr<int64_t>("classes"));
               return std::vector{Type{c.attr<DType>("dtype"), shape}};
             },
         .grad = NoGradient{"its operand is an index"},
         .cost = per_element(1),
         .popart_type = "OneHot",
         .indices = [](const Op& op) { return IndexOperands{{0, op.attr<int64_t>("classes")}}; }});
}

void add_dynamic(Registry& r) {
  r.add(
      {.name = "dynamic_slice",
       .doc = "`size` elements of the axis from `start` on, wrapping past the end.",
       .inputs = {"x", "start: i32"},
       .outputs = {"y"},
       .attrs = {{"axis", AttrType::kInt}, {"size", AttrType::kInt}},
       .infer =
           [](const InferContext& c) {
             Shape shape = c.operand(0).shape;
             require_one_element(c, 1);
             int64_t& extent = shape[axis_of(c)];
             int64_t size = c.attr<int64_t>("size");
             if (size < 1 || size > extent)
               c.fail(str("size ", size, " of ", extent, " elements."));
             extent = size;
             return std::vector{Type{c.operand(0).dtype, shape}};
           },
       .grad =
           [](GradBuilder& g) {
             return std::vector<Value*>{
                 g.emit("dynamic_update", {zeros(g, g.x(0).type()), g.dy(0), g.x(1)}, same_axis(g)),
                 nullptr};
           },
       .cost = moves_data(),
       .popart_type = "DynamicSlice",
       .indices = starts(1)});
  r.add({.name = "dynamic_update",
         .doc = "x with src put along the axis from `start` on, wrapping past the end.",
         .inputs = {"x", "src: x", "start: i32"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt}},
         .infer =
             [](const InferContext& c) {
               int64_t axis = axis_of(c);
               require_one_element(c, 2);
               Shape expected = c.operand(0).shape;
               if (c.operand(1).rank() == c.operand(0).rank()) {
                 expected[axis] = std::min(expected[axis], c.operand(1).shape[axis]);
               }
               require_shape(c, 1, expected);
               return std::vector{c.operand(0)};
             },
         .grad =
             [](GradBuilder& g) {
               ir::Attrs attrs = same_axis(g);
               attrs.set("size", g.x(1).type().shape[g.attr<int64_t>("axis")]);
               Val dsrc = g.emit("dynamic_slice", {g.dy(0), g.x(2)}, attrs);
               Val hole = zeros(g, g.x(1).type());
               Val dx = g.emit("dynamic_update", {g.dy(0), hole, g.x(2)}, same_axis(g));
               return std::vector<Value*>{dx, dsrc, nullptr};
             },
         .cost = moves_data(),
         .popart_type = "DynamicUpdate",
         .indices = starts(2)});
}

}  // namespace

void add_index_ops(Registry& r) {
  add_embedding(r);
  add_gathers(r);
  add_selects(r);
  add_fancy(r);
  add_dynamic(r);
}

}  // namespace poptorch::ops
