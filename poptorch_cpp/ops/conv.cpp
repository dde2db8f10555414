// Convolutions over 1 to 3 spatial dimensions, and their gradients. Padding is one number an axis.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

std::vector<ir::AttrDef> geometry(std::vector<ir::AttrDef> more = {}) {
  std::vector<ir::AttrDef> attrs = {{"strides", AttrType::kInts},
                                    {"padding", AttrType::kInts},
                                    {"dilation", AttrType::kInts},
                                    {"groups", AttrType::kInt, int64_t{1}}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

ir::Attrs geometry_of(const GradBuilder& g) {
  return {{"strides", g.attr<Ints>("strides")},
          {"padding", g.attr<Ints>("padding")},
          {"dilation", g.attr<Ints>("dilation")},
          {"groups", g.attr<int64_t>("groups")}};
}

void check_geometry(const InferContext& c, size_t spatial) {
  for (const char* name : {"strides", "padding", "dilation"}) {
    if (c.attr<Ints>(name).size() != spatial) {
      c.fail(str("attribute '", name, "' needs ", spatial, " numbers but has ",
                 c.attr<Ints>(name).size(), "."));
    }
  }
}

std::vector<Type> infer_conv(const InferContext& c) {
  require_same_dtype(c, 0, 1);
  require_rank(c, 0, 3);
  const Shape &x = c.operand(0).shape, &w = c.operand(1).shape;
  const int64_t groups = c.attr<int64_t>("groups");
  if (w.size() != x.size() || groups < 1 || x[1] != w[1] * groups || w[0] % groups != 0) {
    c.fail(str("x ", ir::shape_text(x), " does not fit w ", ir::shape_text(w), " with ", groups,
               " groups."));
  }
  check_geometry(c, x.size() - 2);
  const Ints &strides = c.attr<Ints>("strides"), &padding = c.attr<Ints>("padding"),
             &dilation = c.attr<Ints>("dilation");
  Shape y = {x[0], w[0]};
  for (size_t i = 0; i < strides.size(); ++i) {
    int64_t room = x[i + 2] + 2 * padding[i] - dilation[i] * (w[i + 2] - 1) - 1;
    if (room < 0) {
      c.fail(str("the kernel ", ir::shape_text(w), " is larger than the padded input ",
                 ir::shape_text(x), "."));
    }
    y.push_back(room / strides[i] + 1);
  }
  if (c.has(2) && c.operand(2).shape != Shape{w[0]}) {
    c.fail(str("bias must be ", ir::shape_text({w[0]}), " but is ",
               ir::shape_text(c.operand(2).shape), "."));
  }
  return {Type{c.operand(0).dtype, y}};
}

std::vector<Type> infer_conv_transpose(const InferContext& c) {
  require_same_dtype(c, 0, 1);
  require_rank(c, 0, 3);
  const Shape &x = c.operand(0).shape, &w = c.operand(1).shape;
  const int64_t groups = c.attr<int64_t>("groups");
  if (w.size() != x.size() || groups < 1 || x[1] != w[0] || x[1] % groups != 0) {
    c.fail(str("x ", ir::shape_text(x), " does not fit w ", ir::shape_text(w), " with ", groups,
               " groups."));
  }
  check_geometry(c, x.size() - 2);
  const Ints &strides = c.attr<Ints>("strides"), &padding = c.attr<Ints>("padding"),
             &dilation = c.attr<Ints>("dilation"), &extra = c.attr<Ints>("output_padding");
  Shape y = {x[0], w[1] * groups};
  for (size_t i = 0; i < strides.size(); ++i) {
    y.push_back((x[i + 2] - 1) * strides[i] - 2 * padding[i] + dilation[i] * (w[i + 2] - 1) +
                extra.at(i) + 1);
  }
  return {Type{c.operand(0).dtype, y}};
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

// A transposed convolution is the input gradient of a convolution: x plays dy.
std::vector<Value*> conv_transpose_gradient(GradBuilder& g) {
  std::vector<Value*> out(3, nullptr);
  if (g.needs(0)) {
    Val dx = g.emit("conv", {g.dy(0), g.x(1)}, geometry_of(g));
    const Shape& shape = g.x(0).type().shape;
    if (dx.type().shape != shape) {  // output padding beyond a stride reaches further than x does
      dx = g.emit("slice", {dx},
                  {{"starts", Ints(shape.size(), 0)},
                   {"stops", Ints(shape)},
                   {"steps", Ints(shape.size(), 1)}});
    }
    out[0] = dx;
  }
  if (g.needs(1)) {
    ir::Attrs attrs = geometry_of(g);
    attrs.set("weight_shape", Ints(g.x(1).type().shape));
    out[1] = g.emit("conv_grad_weight", {g.dy(0), g.x(0)}, attrs);
  }
  if (g.has(2) && g.needs(2)) out[2] = channel_sum(g, g.dy(0));
  return out;
}

}  // namespace

void add_conv_ops(Registry& r) {
  r.add({.name = "conv",
         .doc = "Cross-correlation of x [n, c, spatial...] with w [out, c / groups, kernel...].",
         .inputs = {"x: float", "w: float", "bias: float?"},
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
         .inputs = {"x: float", "w: float", "bias: float?"},
         .outputs = {"y"},
         .attrs = geometry({{"output_padding", AttrType::kInts}}),
         .infer = infer_conv_transpose,
         .grad = conv_transpose_gradient,
         .cost =
             [](const Op& op) {
               return conv_cost(op, op.operand(1)->type().shape, op.operand(0)->type().shape);
             },
         .popart_type = "ConvTranspose"});
  r.add({.name = "conv_grad_input",
         .doc = "The gradient of conv's x.",
         .inputs = {"dy: float", "w: float"},
         .outputs = {"dx"},
         .attrs = geometry({{"input_shape", AttrType::kInts}}),
         .infer =
             [](const InferContext& c) {
               return std::vector{Type{c.operand(0).dtype, c.attr<Ints>("input_shape")}};
             },
         .grad = NoGradient{"second derivatives of conv are not supported"},
         .cost =
             [](const Op& op) {
               return conv_cost(op, op.operand(1)->type().shape, op.operand(0)->type().shape);
             },
         .popart_type = "ConvDataGrad"});
  r.add({.name = "conv_grad_weight",
         .doc = "The gradient of conv's w.",
         .inputs = {"x: float", "dy: float"},
         .outputs = {"dw"},
         .attrs = geometry({{"weight_shape", AttrType::kInts}}),
         .infer =
             [](const InferContext& c) {
               return std::vector{Type{c.operand(0).dtype, c.attr<Ints>("weight_shape")}};
             },
         .grad = NoGradient{"second derivatives of conv are not supported"},
         .cost =
             [](const Op& op) {
               return conv_cost(op, op.result()->type().shape, op.operand(1)->type().shape);
             },
         .popart_type = "ConvWeightsGrad"});
}

}  // namespace poptorch::ops
