// Batch, layer and group normalisation.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

const ir::AttrDef kEps{"eps", AttrType::kFloat, 1e-5};

// Requires operands from `first` to `last`, if present, to be vectors of one number a channel.
void check_channels(const InferContext& c, size_t first, size_t last) {
  require_rank(c, 0, 2);
  for (size_t i = first; i <= last; ++i) require_shape(c, i, {c.operand(0).shape[1]});
}

// Returns the type of mean and inv_std: f64 for f64 operands, else f32.
Type statistics(const InferContext& c, Shape shape) {
  return {c.operand(0).dtype == DType::kF64 ? DType::kF64 : DType::kF32, std::move(shape)};
}

// Checks a gradient op: a weight of shape `inner` and the forward op's statistics. Returns the
// types of the gradients; without a weight, those of weight and bias have dtype `otherwise`.
std::vector<Type> checked_gradients(const InferContext& c, const Shape& inner,
                                    const Type& statistics, DType otherwise) {
  require_shape(c, 1, inner);
  require_type(c, 2, statistics);
  require_type(c, 3, statistics);
  const Type parameter{c.has(1) ? c.operand(1).dtype : otherwise, inner};
  return {c.operand(0), parameter, parameter};
}

// Reshapes a vector of channels to broadcast against x [n, c, ...].
Val per_channel(GradBuilder& g, Val vector) {
  Shape shape(g.x(0).type().shape.size(), 1);
  shape[1] = vector.type().elements();
  return reshape_to(g, vector, shape);
}

Val sum_but_channels(GradBuilder& g, Val x) {
  Ints axes;
  for (int64_t i = 0; i < x.type().rank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  return g.emit("sum", {x}, {{"axes", axes}});
}

void add_batch_norm(Registry& r) {
  r.add({.name = "batch_norm",
         .doc = "(x - mean) · inv_std · weight + bias with the batch's own statistics over all but "
                "axis 1; the running ones move by `momentum` towards mean and unbiased variance.",
         .inputs = {"x: float", "weight: float?", "bias: float?", "running_mean: float?",
                    "running_var: float?"},
         .outputs = {"y", "mean", "inv_std", "new_running_mean", "new_running_var"},
         .attrs = {{"momentum", AttrType::kFloat, 0.1}, kEps},
         .infer =
             [](const InferContext& c) {
               check_channels(c, 1, 4);
               if (c.operand(0).elements() <= c.operand(0).shape[1]) {
                 c.fail(str("needs more than one value per channel when training, got input size ",
                            ir::shape_text(c.operand(0).shape), "."));
               }
               const Type channel = statistics(c, {c.operand(0).shape[1]});
               return std::vector{c.operand(0), channel, channel, c.has(3) ? c.operand(3) : channel,
                                  c.has(4) ? c.operand(4) : channel};
             },
         .grad =
             [](GradBuilder& g) {
               Op* op = g.builder().emit("batch_norm_grad",
                                         {g.x(0), g.op().operand(1), g.y(1), g.y(2), g.dy(0)});
               return std::vector<Value*>{op->result(0), g.has(1) ? op->result(1) : nullptr,
                                          g.has(2) ? op->result(2) : nullptr, nullptr, nullptr};
             },
         .cost = per_operand_element(8),
         .popart_type = "BatchNormalization"});
  r.add({.name = "batch_norm_grad",
         .doc = "Gradients of batch_norm's x, weight and bias.",
         .inputs = {"x: float", "weight: float?", "mean: float", "inv_std: float", "dy: =x"},
         .outputs = {"dx", "dweight", "dbias"},
         .infer =
             [](const InferContext& c) {
               require_rank(c, 0, 2);
               const Shape channels = {c.operand(0).shape[1]};
               const Type mean = statistics(c, channels);
               return checked_gradients(c, channels, mean, mean.dtype);
             },
         .grad = NoGradient{"second derivatives of batch_norm are not supported"},
         .cost = per_operand_element(12),
         .popart_type = "BatchNormGrad"});
  r.add({.name = "batch_norm_inference",
         .doc = "(x - mean) / sqrt(var + eps) · weight + bias over axis 1.",
         .inputs = {"x: float", "weight: float?", "bias: float?", "mean: float", "var: float"},
         .outputs = {"y"},
         .attrs = {kEps},
         .infer =
             [](const InferContext& c) {
               check_channels(c, 1, 4);
               return std::vector{c.operand(0)};
             },
         .grad =
             [](GradBuilder& g) {
               Val inv_std = g.emit("rsqrt", {g.x(4) + g.attr<double>("eps")});
               Val scale = g.has(1) ? inv_std * g.x(1) : inv_std;
               Val normal = (g.x(0) - per_channel(g, g.x(3))) * per_channel(g, inv_std);
               std::vector<Value*> out(5, nullptr);
               out[0] = g.dy(0) * per_channel(g, scale);
               if (g.has(1) && g.needs(1)) out[1] = sum_but_channels(g, g.dy(0) * normal);
               if (g.has(2) && g.needs(2)) out[2] = sum_but_channels(g, g.dy(0));
               return out;
             },
         .cost = per_operand_element(2),
         .popart_type = "BatchNormalization"});
  r.add({.name = "batch_norm_factors",
         .doc = "weight / sqrt(var + eps), and bias - mean · scale: batch_norm_inference is "
                "x · scale + shift. They are in f32; in f64 for a var in f64.",
         .inputs = {"weight: float?", "bias: float?", "mean: float", "var: float"},
         .outputs = {"scale", "shift"},
         .attrs = {kEps},
         .infer =
             [](const InferContext& c) {
               const Type& var = c.operand(3);
               require_rank(c, 3, 1);
               for (size_t i = 0; i < 3; ++i) require_shape(c, i, var.shape);
               const DType dtype = var.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
               return std::vector(2, Type{dtype, var.shape});
             },
         .grad = NoGradient{"batch_norm_inference has one"},
         .cost = per_element(8),
         .popart_type = "BatchNormalization"});
}

// Returns the shape of mean and inv_std: the leading dimensions.
Shape leading(const InferContext& c) {
  const Shape& x = c.operand(0).shape;
  int64_t axes = c.attr<int64_t>("axes_count");
  if (axes < 1 || axes > static_cast<int64_t>(x.size())) {
    c.fail(str("axes_count is ", axes, " but x has ", x.size(), " dimensions."));
  }
  return Shape(x.begin(), x.end() - axes);
}

Shape trailing(const InferContext& c) {
  const Shape& x = c.operand(0).shape;
  return Shape(x.end() - c.attr<int64_t>("axes_count"), x.end());
}

void add_layer_norm(Registry& r) {
  const ir::AttrDef axes{"axes_count", AttrType::kInt, int64_t{1}};
  r.add({.name = "layer_norm",
         .doc = "(x - mean) · inv_std · weight + bias over the last axes_count dimensions.",
         .inputs = {"x: float", "weight: float?", "bias: float?"},
         .outputs = {"y", "mean", "inv_std"},
         .attrs = {axes, kEps},
         .infer =
             [](const InferContext& c) {
               const Type mean = statistics(c, leading(c));
               const Shape inner = trailing(c);
               require_shape(c, 1, inner);
               require_shape(c, 2, inner);
               return std::vector{c.operand(0), mean, mean};
             },
         .grad =
             [](GradBuilder& g) {
               Op* op = g.builder().emit("layer_norm_grad",
                                         {g.x(0), g.op().operand(1), g.y(1), g.y(2), g.dy(0)},
                                         {{"axes_count", g.attr<int64_t>("axes_count")}});
               return std::vector<Value*>{op->result(0), g.has(1) ? op->result(1) : nullptr,
                                          g.has(2) ? op->result(2) : nullptr};
             },
         .cost = per_operand_element(8),
         .popart_type = "LayerNormalization"});
  r.add({.name = "layer_norm_grad",
         .doc = "Gradients of layer_norm's x, weight and bias.",
         .inputs = {"x: float", "weight: float?", "mean: float", "inv_std: float", "dy: =x"},
         .outputs = {"dx", "dweight", "dbias"},
         .attrs = {axes},
         .infer =
             [](const InferContext& c) {
               const Type mean = statistics(c, leading(c));
               return checked_gradients(c, trailing(c), mean, c.operand(0).dtype);
             },
         .grad = NoGradient{"second derivatives of layer_norm are not supported"},
         .cost = per_operand_element(12),
         .popart_type = "GroupNormalizationGrad"});
}

// Returns the type of statistics with one number for each group of channels of each sample.
Type group_statistics(const InferContext& c) {
  require_rank(c, 0, 2);
  const Shape& x = c.operand(0).shape;
  const int64_t count = c.attr<int64_t>("groups");
  if (x[1] % count != 0) c.fail(str(x[1], " channels do not divide into ", count, " groups."));
  return statistics(c, {x[0], count});
}

void add_group_norm(Registry& r) {
  const ir::AttrDef groups = at_least(1, {"groups", AttrType::kInt});
  r.add({.name = "group_norm",
         .doc = "(x - mean) · inv_std · weight + bias; statistics over each group of channels of "
                "each sample, one weight and bias per channel.",
         .inputs = {"x: float", "weight: float?", "bias: float?"},
         .outputs = {"y", "mean", "inv_std"},
         .attrs = {groups, kEps},
         .infer =
             [](const InferContext& c) {
               check_channels(c, 1, 2);
               const Type mean = group_statistics(c);
               return std::vector{c.operand(0), mean, mean};
             },
         .grad =
             [](GradBuilder& g) {
               Op* op = g.builder().emit("group_norm_grad",
                                         {g.x(0), g.op().operand(1), g.y(1), g.y(2), g.dy(0)},
                                         {{"groups", g.attr<int64_t>("groups")}});
               return std::vector<Value*>{op->result(0), g.has(1) ? op->result(1) : nullptr,
                                          g.has(2) ? op->result(2) : nullptr};
             },
         .cost = per_operand_element(8),
         .popart_type = "GroupNormalization"});
  r.add({.name = "group_norm_grad",
         .doc = "Gradients of group_norm's x, weight and bias.",
         .inputs = {"x: float", "weight: float?", "mean: float", "inv_std: float", "dy: =x"},
         .outputs = {"dx", "dweight", "dbias"},
         .attrs = {groups},
         .infer =
             [](const InferContext& c) {
               const Type mean = group_statistics(c);
               return checked_gradients(c, {c.operand(0).shape[1]}, mean, c.operand(0).dtype);
             },
         .grad = NoGradient{"second derivatives of group_norm are not supported"},
         .cost = per_operand_element(12),
         .popart_type = "GroupNormalizationGrad"});
}

}  // namespace

void add_norm_ops(Registry& r) {
  add_batch_norm(r);
  add_layer_norm(r);
  add_group_norm(r);
}

}  // namespace poptorch::ops
