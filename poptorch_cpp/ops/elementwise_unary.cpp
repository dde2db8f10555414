// Element-wise ops of one operand, each with its derivative.
#include <cmath>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using Derivative = std::function<Val(GradBuilder&, Val dy)>;

// Adds a float → float row; `flops` is the modelled count of operations for each element.
void add_float(Registry& r, const char* name, const char* doc, double flops, Derivative rule,
               std::string popart = {}) {
  r.add({.name = name,
         .doc = doc,
         .inputs = {"x: float"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = grad1_in_f32(std::move(rule)),
         .cost = per_element(flops),
         .elementwise = true,
         .popart_type = std::move(popart)});
}

void add_step(Registry& r, const char* name, const char* doc, std::string popart = {}) {
  // These are piecewise constant: torch returns zeros.
  r.add({.name = name,
         .doc = doc,
         .inputs = {"x: number"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = grad1(no_slope),
         .cost = per_element(1),
         .elementwise = true,
         .exact = true,
         .popart_type = std::move(popart)});
}

void add_predicate(Registry& r, const char* name, const char* doc, const char* operand,
                   std::string popart = {}, ir::Role role = ir::Role::kPlain) {
  r.add({.name = name,
         .doc = doc,
         .role = role,
         .inputs = {operand},
         .outputs = {"y"},
         .infer = broadcast_of_operands(DType::kBool),
         .grad = NoGradient{"its result is a truth value"},
         .cost = per_element(1),
         .elementwise = true,
         .exact = true,
         .popart_type = std::move(popart)});
}

Val unary(Val x, const char* op) { return {x.builder->value(op, {x}), x.builder}; }

// Returns gelu''(x).
Val gelu_curvature(GradBuilder& g, Val x) {
  const Val square = unary(x, "square");
  if (g.attr<std::string>("approximate") == "none") {
    return unary(square * -0.5, "exp") * (2.0 - square) * 0.3989422804014327;
  }
  constexpr double kScale = 0.7978845608028654, kCubic = 0.044715;
  const Val t = unary(x * (square * kCubic + 1.0) * kScale, "tanh");
  const Val slope = (square * (3 * kCubic) + 1.0) * kScale, bend = x * (6 * kCubic * kScale);
  const Val rise = 1.0 - t * t;
  return rise * slope + x * 0.5 * rise * (bend - t * slope * slope * 2.0);
}
// Returns false for nan, whose gradient torch passes through.
Val not_above(Val x, double bound) {
  Value* number = x.builder->scalar(x.type().dtype, bound);
  return {x.builder->value("le", {x, number}), x.builder};
}
Val greater(Val x, double bound) {
  Value* number = x.builder->scalar(x.type().dtype, bound);
  return {x.builder->value("gt", {x, number}), x.builder};
}

void add_exponentials(Registry& r) {
  add_float(
      r, "exp", "e to the power of every element.", 8,
      [](GradBuilder& g, Val dy) { return dy * g.y(0); }, "Exp");
  add_float(r, "expm1", "exp(x) - 1, exact near zero.", 8,
            [](GradBuilder& g, Val dy) { return dy * (g.y(0) + 1.0); });
  add_float(
      r, "log", "Natural logarithm.", 8, [](GradBuilder& g, Val dy) { return dy / g.x(0); }, "Log");
  add_float(r, "log1p", "log(1 + x), exact near zero.", 8,
            [](GradBuilder& g, Val dy) { return dy / (g.x(0) + 1.0); });
  add_float(r, "log2", "Logarithm to base 2.", 8,
            [](GradBuilder& g, Val dy) { return dy / (g.x(0) * std::log(2.0)); });
  add_float(r, "log10", "Logarithm to base 10.", 8,
            [](GradBuilder& g, Val dy) { return dy / (g.x(0) * std::log(10.0)); });
  add_float(
      r, "sqrt", "Square root.", 4, [](GradBuilder& g, Val dy) { return dy / (2.0 * g.y(0)); },
      "Sqrt");
  add_float(r, "rsqrt", "1 / sqrt(x).", 4,
            [](GradBuilder& g, Val dy) { return dy * (-0.5) * (g.y(0) * g.y(0) * g.y(0)); });
  add_float(
      r, "reciprocal", "1 / x.", 2, [](GradBuilder& g, Val dy) { return -dy * (g.y(0) * g.y(0)); },
      "Reciprocal");
}

void add_trigonometry(Registry& r) {
  add_float(
      r, "sin", "Sine of radians.", 10,
      [](GradBuilder& g, Val dy) { return dy * unary(g.x(0), "cos"); }, "Sin");
  add_float(
      r, "cos", "Cosine of radians.", 10,
      [](GradBuilder& g, Val dy) { return -dy * unary(g.x(0), "sin"); }, "Cos");
  add_float(
      r, "tan", "Tangent of radians.", 12,
      [](GradBuilder& g, Val dy) { return dy * (g.y(0) * g.y(0) + 1.0); }, "Tan");
  add_float(r, "asin", "Inverse sine.", 12,
            [](GradBuilder& g, Val dy) { return dy * unary(1.0 - g.x(0) * g.x(0), "rsqrt"); });
  add_float(r, "acos", "Inverse cosine.", 12,
            [](GradBuilder& g, Val dy) { return -dy * unary(1.0 - g.x(0) * g.x(0), "rsqrt"); });
  add_float(r, "atan", "Inverse tangent.", 12,
            [](GradBuilder& g, Val dy) { return dy / (g.x(0) * g.x(0) + 1.0); });
  add_float(r, "sinh", "Hyperbolic sine.", 12,
            [](GradBuilder& g, Val dy) { return dy * unary(g.x(0), "cosh"); });
  add_float(r, "cosh", "Hyperbolic cosine.", 12,
            [](GradBuilder& g, Val dy) { return dy * unary(g.x(0), "sinh"); });
  add_float(
      r, "tanh", "Hyperbolic tangent.", 10,
      [](GradBuilder& g, Val dy) { return dy * (1.0 - g.y(0) * g.y(0)); }, "Tanh");
  add_float(r, "asinh", "Inverse hyperbolic sine.", 14,
            [](GradBuilder& g, Val dy) { return dy * unary(g.x(0) * g.x(0) + 1.0, "rsqrt"); });
  add_float(r, "acosh", "Inverse hyperbolic cosine.", 14,
            [](GradBuilder& g, Val dy) { return dy * unary(g.x(0) * g.x(0) - 1.0, "rsqrt"); });
  add_float(r, "atanh", "Inverse hyperbolic tangent.", 14,
            [](GradBuilder& g, Val dy) { return dy / (1.0 - g.x(0) * g.x(0)); });
  add_float(r, "erf", "Error function.", 12, [](GradBuilder& g, Val dy) {
    Val bell = unary(-(g.x(0) * g.x(0)), "exp");
    return dy * (bell * (2.0 / std::sqrt(M_PI)));
  });
  add_float(r, "erfinv", "Inverse error function.", 20, [](GradBuilder& g, Val dy) {
    return dy * (unary(g.y(0) * g.y(0), "exp") * (std::sqrt(M_PI) / 2));
  });
}

void add_activations(Registry& r) {
  add_float(
      r, "sigmoid", "1 / (1 + exp(-x)).", 10,
      [](GradBuilder& g, Val dy) { return dy * ((1.0 - g.y(0)) * g.y(0)); }, "Sigmoid");
  r.add({.name = "relu",
         .doc = "max(x, 0).",
         .inputs = {"x: number"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder& g, Val dy) {
           Val zero{g.builder().scalar(dy.type().dtype, 0.0), dy.builder};
           return select(not_above(g.y(0), 0), zero, dy);
         }),
         .cost = per_element(1),
         .elementwise = true,
         .exact = true,
         .popart_type = "Relu"});
  add_float(
      r, "silu", "x · sigmoid(x).", 11,
      [](GradBuilder& g, Val dy) {
        Val s = unary(g.x(0), "sigmoid");
        return dy * (s * (g.x(0) * (1.0 - s) + 1.0));
      },
      "Swish");
  add_float(r, "softplus", "log(1 + exp(x)).", 16,
            [](GradBuilder& g, Val dy) { return dy * unary(g.x(0), "sigmoid"); });
  r.add({.name = "gelu",
         .doc = "x · Φ(x), or its tanh approximation (Hendrycks and Gimpel 2016).",
         .inputs = {"x: float"},
         .outputs = {"y"},
         .attrs = {{"approximate", AttrType::kString, std::string("none"), {"none", "tanh"}}},
         .infer = same_as(0),
         .grad =
             [](GradBuilder& g) {
               return std::vector<Value*>{
                   g.emit("gelu_grad", {g.x(0), g.dy(0)},
                          {{"approximate", g.attr<std::string>("approximate")}})};
             },
         .cost = per_element(16),
         .elementwise = true,
         .popart_type = "Gelu"});
  r.add({.name = "gelu_grad",
         .doc = "dy · gelu'(x).",
         .inputs = {"x: float", "dy: x"},
         .outputs = {"dx"},
         .attrs = {{"approximate", AttrType::kString, std::string("none"), {"none", "tanh"}}},
         .infer = broadcast_of_operands(),
         .grad = in_f32(
             grad2([](GradBuilder& g, Val v) { return v * g.x(1) * gelu_curvature(g, g.x(0)); },
                   [](GradBuilder& g, Val v) {
                     return g.emit("gelu_grad", {g.x(0), v},
                                   {{"approximate", g.attr<std::string>("approximate")}});
                   })),
         .cost = per_element(20),
         .elementwise = true,
         .popart_type = "GeluGrad"});
  r.add({.name = "leaky_relu",
         .doc = "x where positive, else slope · x.",
         .inputs = {"x: float"},
         .outputs = {"y"},
         .attrs = {{"slope", AttrType::kFloat, 0.01}},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder& g, Val dy) {
           return select(greater(g.x(0), 0), dy, dy * g.attr<double>("slope"));
         }),
         .cost = per_element(2),
         .elementwise = true,
         .popart_type = "LeakyRelu"});
  r.add({.name = "elu",
         .doc = "scale · x where positive, else scale · alpha · (exp(input_scale · x) - 1).",
         .inputs = {"x: float"},
         .outputs = {"y"},
         .attrs = {{"alpha", AttrType::kFloat, 1.0},
                   {"scale", AttrType::kFloat, 1.0},
                   {"input_scale", AttrType::kFloat, 1.0}},
         .infer = same_as(0),
         .grad = grad1_in_f32([](GradBuilder& g, Val dy) {
           double alpha = g.attr<double>("alpha"), scale = g.attr<double>("scale");
           double inner = g.attr<double>("input_scale");
           Val negative = unary(g.x(0) * inner, "exp") * (alpha * scale * inner);
           return select(greater(g.x(0), 0), dy * scale, dy * negative);
         }),
         .cost = per_element(10),
         .elementwise = true,
         .popart_type = "Elu"});
}

void add_arithmetic(Registry& r) {
  r.add({.name = "neg",
         .doc = "-x.",
         .inputs = {"x: number"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder&, Val dy) { return -dy; }),
         .cost = per_element(1),
         .elementwise = true,
         .exact = true,
         .popart_type = "Neg"});
  r.add({.name = "abs",
         .doc = "|x|.",
         .inputs = {"x: number"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder& g, Val dy) { return dy * unary(g.x(0), "sign"); }),
         .cost = per_element(1),
         .elementwise = true,
         .exact = true,
         .popart_type = "Abs"});
  r.add({.name = "square",
         .doc = "x · x.",
         .inputs = {"x: number"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder& g, Val dy) { return dy * (2.0 * g.x(0)); }),
         .cost = per_element(1),
         .elementwise = true,
         .popart_type = "Square"});
  add_step(r, "sign", "-1, 0 or 1; 0 for nan.", "Sign");
  add_step(r, "ceil", "The smallest integer that is not less.", "Ceil");
  add_step(r, "floor", "The largest integer that is not greater.", "Floor");
  add_step(r, "round", "The nearest integer, ties to even.", "Round");
  add_step(r, "trunc", "The integer part.");
  add_predicate(r, "isnan", "True where nan.", "x: float", "IsNaN", ir::Role::kUnusual);
  add_predicate(r, "isinf", "True where infinite.", "x: float", "IsInf", ir::Role::kUnusual);
  add_predicate(r, "logical_not", "True where zero or false.", "x: any", "Not");
  r.add({.name = "bitwise_not",
         .doc = "Every bit flipped; of a truth value, its negation.",
         .inputs = {"x: any"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = NoGradient{"it works on bits"},
         .cost = per_element(1),
         .elementwise = true,
         .popart_type = "BitwiseNot"});
  constexpr const char* kGamma = "The log of the gamma function, or its derivative.";
  add_float(r, "lgamma", kGamma, 40,
            [](GradBuilder& g, Val dy) { return dy * unary(g.x(0), "digamma"); });
  r.add({.name = "digamma",
         .doc = kGamma,
         .inputs = {"x: float"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = NoGradient{"polygamma is not supported"},
         .cost = per_element(40),
         .elementwise = true});
}

void add_scaling(Registry& r) {
  r.add({.name = "pow2_scale",
         .doc = "x · 2^log2_scale, exactly where it can be represented. An exponent outside of "
                "[-32, 32) is an error.",
         .inputs = {"x: float", "log2_scale: int"},
         .outputs = {"y"},
         .infer =
             [](const InferContext& c) {
               if (!c.operand(1).shape.empty()) c.fail("log2_scale must be a scalar.");
               return std::vector{c.operand(0)};
             },
         .grad =
             [](GradBuilder& g) {
               return std::vector<Value*>{g.emit("pow2_scale", {g.dy(0), g.x(1)}), nullptr};
             },
         .cost = per_element(1)});
}

void add_copies(Registry& r) {
  r.add({.name = "cast",
         .doc = "Every element converted: floats round to nearest even, float to "
                "integer truncates, anything but zero is true.",
         .role = Role::kCast,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = {{"dtype", AttrType::kDType}},
         .infer =
             [](const InferContext& c) {
               return std::vector{Type{c.attr<DType>("dtype"), c.operand(0).shape}};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           return g.emit("cast", {dy}, {{"dtype", g.x(0).type().dtype}});
         }),
         .cost = per_element(1),
         .elementwise = true,
         .popart_type = "Cast"});
  r.add({.name = "identity",
         .doc = "x.",
         .role = Role::kIdentity,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = {{"checkpoint", AttrType::kBool, false, {}, "pipelines keep it for backward"},
                   {"host",
                    AttrType::kString,
                    std::string("none"),
                    {"none", "input", "output"},
                    "marks x as an input or output of the model, with `overlap`"},
                   {"overlap",
                    AttrType::kString,
                    std::string("none"),
                    {"none", "accumulation_loop", "device_iteration_loop"},
                    "the loop whose rounds its transfers may precede or follow"}},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder&, Val dy) { return dy; }),
         .cost = moves_data(),
         .elementwise = true,
         .exact = true,
         .popart_type = "Identity"});
  r.add({.name = "detach",
         .doc = "x, through which no gradient flows.",
         .role = Role::kIdentity,
         .inputs = {"x"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = NoGradient{"detached", true},
         .cost = moves_data(),
         .elementwise = true,
         .exact = true,
         .mark = true,
         .popart_type = "Detach"});
  r.add({.name = "with_history",
         .doc = "x, whose gradient goes to `history`: marks a write that autograd did not see.",
         .inputs = {"x", "history: =x"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = [](GradBuilder& g) { return std::vector<Value*>{nullptr, g.dy(0)}; },
         .cost = no_cost(),
         .mark = true,
         .popart_type = "Identity"});
}

}  // namespace

void add_elementwise_unary_ops(Registry& r) {
  add_arithmetic(r);
  add_exponentials(r);
  add_trigonometry(r);
  add_activations(r);
  add_scaling(r);
  add_copies(r);
}

}  // namespace poptorch::ops
