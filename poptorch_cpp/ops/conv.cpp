// Convolutions over 1 to 3 spatial dimensions, and their gradients. Padding is one number an axis.
#include <algorithm>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

std::vector<ir::AttrDef> geometry(std::vector<ir::AttrDef> more = {}) {
  std::vector<ir::AttrDef> attrs = {
      at_least(1, {"strides", AttrType::kInts}),
      at_least(0, {"padding", AttrType::kInts}),
      at_least(1, {"dilation", AttrType::kInts}),
      at_least(1, {"groups", AttrType::kInt, int64_t{1}}),
      // Convolutions with the same number are one op of the device; 0: alone.
      at_least(0, {"multi_conv", AttrType::kInt, int64_t{0}}),
      {"plan", AttrType::kString, std::string("parallel"), {"parallel", "serial"}},
      // A parallel plan gives each convolution at least these tiles. Its search begins that far
      // from the fastest plan.
      at_least(0, {"reserved_tiles", AttrType::kInt, int64_t{50}}),
      within({"cycle_back_off", AttrType::kFloat, 0.1}, 0, 1),
      at_least(0, {"tiles", AttrType::kInt, int64_t{0}})};  // of the plan; 0: all
  attrs.insert(attrs.end(), more.begin(), more.end());
  return planned(std::move(attrs));
}

ir::Attrs geometry_of(const GradBuilder& g) {
  return given_attrs(g, {"strides", "padding", "dilation", "groups", "multi_conv", "plan",
                         "reserved_tiles", "cycle_back_off", "partials", "memory_proportion"});
}

void check_geometry(const InferContext& c, size_t spatial,
                    std::initializer_list<const char*> more = {}) {
  std::vector<const char*> names = {"strides", "padding", "dilation"};
  names.insert(names.end(), more);
  for (const char* name : names) {
    if (c.attr<Ints>(name).size() != spatial) {
      c.fail(str("attribute '", name, "' needs ", spatial, " numbers but has ",
                 c.attr<Ints>(name).size(), "."));
    }
  }
}

// Returns the shape of a convolution's result.
Shape convolved(const InferContext& c, const Shape& x, const Shape& w) {
  const int64_t groups = c.attr<int64_t>("groups");
  if (x.size() < 3 || x.size() > 5) {
    c.fail(str("x ", ir::shape_text(x), " must have 1 to 3 spatial dimensions."));
  }
  if (w.size() != x.size() || Wide{w[1]} * groups != x[1] || w[0] % groups != 0 || w[0] == 0 ||
      x[1] == 0) {
    c.fail(str("x ", ir::shape_text(x), " does not fit w ", ir::shape_text(w), " with ", groups,
               " groups."));
  }
  check_geometry(c, x.size() - 2);
  const Ints &strides = c.attr<Ints>("strides"), &padding = c.attr<Ints>("padding"),
             &dilation = c.attr<Ints>("dilation");
  Shape y = {x[0], w[0]};
  for (size_t i = 0; i < strides.size(); ++i) {
    const Wide room = x[i + 2] + 2 * Wide{padding[i]} - Wide{dilation[i]} * (w[i + 2] - 1) - 1;
    if (room < 0 || w[i + 2] == 0) {
      c.fail(str("the kernel ", ir::shape_text(w), " is empty or larger than the padded input ",
                 ir::shape_text(x), "."));
    }
    y.push_back(checked_size(c, room / strides[i] + 1));
  }
  return y;
}

std::vector<Type> infer_conv(const InferContext& c) {
  const Shape& w = c.operand(1).shape;
  const Shape y = convolved(c, c.operand(0).shape, w);
  require_shape(c, 2, {w[0]});
  return {Type{c.operand(0).dtype, y}};
}

std::vector<Type> infer_conv_transpose(const InferContext& c) {
  require_rank(c, 0, 3, 5);
  const Shape &x = c.operand(0).shape, &w = c.operand(1).shape;
  const int64_t groups = c.attr<int64_t>("groups");
  if (w.size() != x.size() || x[1] != w[0] || x[1] % groups != 0 || x[1] == 0 || w[1] == 0) {
    c.fail(str("x ", ir::shape_text(x), " does not fit w ", ir::shape_text(w), " with ", groups,
               " groups."));
  }
  check_geometry(c, x.size() - 2, {"output_padding"});
  const Ints &strides = c.attr<Ints>("strides"), &padding = c.attr<Ints>("padding"),
             &dilation = c.attr<Ints>("dilation"), &extra = c.attr<Ints>("output_padding");
  Shape y = {x[0], checked_size(c, Wide{w[1]} * groups)};
  for (size_t i = 0; i < strides.size(); ++i) {
    if (w[i + 2] == 0) c.fail(str("the kernel ", ir::shape_text(w), " is empty."));
    if (extra[i] >= std::max(strides[i], dilation[i])) {
      c.fail(str("output_padding ", extra[i], " must be less than the stride ", strides[i],
                 " or the dilation ", dilation[i], "."));
    }
    y.push_back(checked_size(c, (x[i + 2] - 1) * Wide{strides[i]} - 2 * Wide{padding[i]} +
                                    Wide{dilation[i]} * (w[i + 2] - 1) + extra[i] + 1));
  }
  require_shape(c, 2, {y[1]});
  return {Type{c.operand(0).dtype, y}};
}

std::vector<Type> infer_grad_input(const InferContext& c) {
  const Shape& x = c.attr<Ints>("input_shape");
  require_shape(c, 0, convolved(c, x, c.operand(1).shape));
  return {Type{c.operand(0).dtype, x}};
}

// dy may stop before x ends: x may be the result of a transposed convolution with output padding.
std::vector<Type> infer_grad_weight(const InferContext& c) {
  const Shape &w = c.attr<Ints>("weight_shape"), &dy = c.operand(1).shape;
  const Shape y = convolved(c, c.operand(0).shape, w);
  bool fits = dy.size() == y.size();
  for (size_t i = 0; fits && i < y.size(); ++i) fits = i < 2 ? dy[i] == y[i] : dy[i] <= y[i];
  if (!fits) {
    c.fail(str("dy must be ", ir::shape_text(y), " but is ", ir::shape_text(dy), "."));
  }
  return {Type{c.operand(0).dtype, w}};
}

Cost conv_cost(const Op& op, const Shape& weight, const Shape& output) {
  double taps = static_cast<double>(ir::element_count(weight)) / static_cast<double>(weight[0]);
  return {2.0 * taps * static_cast<double>(ir::element_count(output)), bytes_of(op), true};
}

Val channel_sum(GradBuilder& g, Val dy) {
  Ints axes;
  for (int64_t i = 0; i < dy.type().rank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  return g.emit("sum", {dy}, {{"axes", axes}});
}

std::vector<Value*> conv_gradient(GradBuilder& g) {
  std::vector<Value*> out(3, nullptr);
  if (g.needs(0)) {
    ir::Attrs attrs = geometry_of(g);
    attrs.set("input_shape", Ints(g.x(0).type().shape));
    out[0] = g.emit("conv_grad_input", {g.dy(0), g.x(1)}, attrs);
  }
  if (g.needs(1)) {
    ir::Attrs attrs = geometry_of(g);
    attrs.set("weight_shape", Ints(g.x(1).type().shape));
    out[1] = g.emit("conv_grad_weight", {g.x(0), g.dy(0)}, attrs);
  }
  if (g.has(2) && g.needs(2)) out[2] = channel_sum(g, g.dy(0));
  return out;
}

// Removes the part of `y` that output padding beyond a stride adds to the required shape.
Val of_shape(GradBuilder& g, Val y, const Shape& shape) {
  if (y.type().shape == shape) return y;
  return g.emit("slice", {y},
                {{"starts", Ints(shape.size(), 0)},
                 {"stops", Ints(shape)},
                 {"steps", Ints(shape.size(), 1)}});
}

// A transposed convolution is the input gradient of a convolution: x takes the place of dy.
std::vector<Value*> conv_transpose_gradient(GradBuilder& g) {
  std::vector<Value*> out(3, nullptr);
  if (g.needs(0)) {
    ir::Attrs attrs = geometry_of(g);
    attrs.erase("multi_conv");  // not a convolution of the forward pass
    attrs.erase("plan");
    out[0] = of_shape(g, g.emit("conv", {g.dy(0), g.x(1)}, attrs), g.x(0).type().shape);
  }
  if (g.needs(1)) {
    ir::Attrs attrs = geometry_of(g);
    attrs.set("weight_shape", Ints(g.x(1).type().shape));
    out[1] = g.emit("conv_grad_weight", {g.dy(0), g.x(0)}, attrs);
  }
  if (g.has(2) && g.needs(2)) out[2] = channel_sum(g, g.dy(0));
  return out;
}

// Both gradients of conv are linear in each of their operands, and so are their gradients.
std::vector<Value*> input_gradient_gradient(GradBuilder& g) {
  std::vector<Value*> out(2, nullptr);
  if (g.needs(0)) {
    out[0] = of_shape(g, g.emit("conv", {g.dy(0), g.x(1)}, geometry_of(g)), g.x(0).type().shape);
  }
  if (g.needs(1)) {
    ir::Attrs attrs = geometry_of(g);
    attrs.set("weight_shape", Ints(g.x(1).type().shape));
    out[1] = g.emit("conv_grad_weight", {g.dy(0), g.x(0)}, attrs);
  }
  return out;
}

std::vector<Value*> weight_gradient_gradient(GradBuilder& g) {
  std::vector<Value*> out(2, nullptr);
  if (g.needs(0)) {
    ir::Attrs attrs = geometry_of(g);
    attrs.set("input_shape", Ints(g.x(0).type().shape));
    out[0] = g.emit("conv_grad_input", {g.x(1), g.dy(0)}, attrs);
  }
  if (g.needs(1)) {
    out[1] = of_shape(g, g.emit("conv", {g.x(0), g.dy(0)}, geometry_of(g)), g.x(1).type().shape);
  }
  return out;
}

}  // namespace

void add_conv_ops(Registry& r) {
  r.add({.name = "conv",
         .doc = "Cross-correlation of x [n, c, spatial...] with w [out, c / groups, kernel...].",
         .role = Role::kProduct,
         .inputs = {"x: float", "w: x", "bias: x?"},
         .outputs = {"y"},
         .attrs = geometry(),
         .infer = infer_conv,
         .grad = conv_gradient,
         .cost =
             [](const Op& op) {
               return conv_cost(op, op.operand(1)->type().shape, op.result()->type().shape);
             },
         .popart_type = "Conv"});
  r.add({.name = "conv_transpose",
         .doc = "The transpose of conv: w is [c, out / groups, kernel...].",
         .role = Role::kProduct,
         .inputs = {"x: float", "w: x", "bias: x?"},
         .outputs = {"y"},
         .attrs = geometry({at_least(0, {"output_padding", AttrType::kInts})}),
         .infer = infer_conv_transpose,
         .grad = conv_transpose_gradient,
         .cost =
             [](const Op& op) {
               return conv_cost(op, op.operand(1)->type().shape, op.operand(0)->type().shape);
             },
         .popart_type = "ConvTranspose"});
  r.add({.name = "conv_grad_input",
         .doc = "The gradient of conv's x.",
         .inputs = {"dy: float", "w: dy"},
         .outputs = {"dx"},
         .attrs = geometry({at_least(0, {"input_shape", AttrType::kInts})}),
         .infer = infer_grad_input,
         .grad = input_gradient_gradient,
         .cost =
             [](const Op& op) {
               return conv_cost(op, op.operand(1)->type().shape, op.operand(0)->type().shape);
             },
         .popart_type = "ConvDataGrad"});
  r.add({.name = "conv_grad_weight",
         .doc = "The gradient of conv's w.",
         .inputs = {"x: float", "dy: x"},
         .outputs = {"dw"},
         .attrs = geometry({at_least(0, {"weight_shape", AttrType::kInts})}),
         .infer = infer_grad_weight,
         .grad = weight_gradient_gradient,
         .cost =
             [](const Op& op) {
               return conv_cost(op, op.result()->type().shape, op.operand(1)->type().shape);
             },
         .popart_type = "ConvWeightsGrad"});
}

}  // namespace poptorch::ops
