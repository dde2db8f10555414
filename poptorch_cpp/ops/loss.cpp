// Losses that are computed by one op, and the mark that names a loss.
#include <cmath>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

const ir::AttrDef kReduction{
    "reduction", AttrType::kString, std::string("mean"), {"mean", "sum", "none"}};
// Accepts any integer: a value that no target can have ignores nothing.
const ir::AttrDef kIgnored =
    within({"ignore_index", AttrType::kInt, int64_t{-100}}, -INFINITY, INFINITY);

// x is [n, classes, ...] with target [n, ...], or [classes] with a scalar target.
Type class_loss(const InferContext& c, size_t target, size_t weight) {
  const Type& x = c.operand(0);
  require_rank(c, 0, 1);
  Shape rest = x.shape;
  const size_t axis = x.rank() == 1 ? 0 : 1;
  rest.erase(rest.begin() + static_cast<int64_t>(axis));
  if (c.operand(target).shape != rest) {
    c.fail(str("target must be ", ir::shape_text(rest), " for scores ", ir::shape_text(x.shape),
               " but is ", ir::shape_text(c.operand(target).shape), "."));
  }
  require_shape(c, weight, {x.shape[axis]});
  return {x.dtype, c.attr<std::string>("reduction") == "none" ? rest : Shape{}};
}

// Returns the type of the scores' gradient, given the gradient of the loss.
std::vector<Type> loss_gradient(const InferContext& c) {
  require_type(c, 3, class_loss(c, 1, 2));
  return {c.operand(0)};
}

// The negated logarithm of a probability that every float type rounds to 0.
constexpr double kLogOfZero = 60000;

ir::Attrs loss_attrs(const GradBuilder& g) {
  return {{"reduction", g.attr<std::string>("reduction")},
          {"ignore_index", g.attr<int64_t>("ignore_index")}};
}

Val full_like(GradBuilder& g, Val x, double value) {
  const Val number{g.builder().scalar(x.type().dtype, value), &g.builder()};
  return broadcast_to(g, number, x.type().shape);
}

// Differentiates op `name`, whose result is dloss · (e · exp(log_probabilities) - t). Here e and t
// depend on target and weight alone; e is 0 for nll_loss_grad.
GradRule of_loss_gradient(const char* name) {
  return [name](GradBuilder& g) {
    const auto again = [&](Val log_probabilities, Val dloss) {
      return g.emit(name, {log_probabilities, g.x(1), g.op().operand(2), dloss}, g.op().attrs());
    };
    const Val v = g.dy(0), scores = g.x(0), dloss = g.x(3);
    std::vector<Value*> out(4, nullptr);
    if (g.needs(0)) out[0] = v * (g.y(0) - again(full_like(g, scores, -kLogOfZero), dloss));
    if (!g.needs(3)) return out;
    const Val slopes = v * again(scores, full_like(g, dloss, 1));
    Ints axes;
    for (int64_t i = 0; i < scores.type().rank(); ++i) axes.push_back(i);
    if (!dloss.type().shape.empty()) axes = {scores.type().rank() == 1 ? 0 : 1};
    out[3] = g.emit("sum", {slopes}, {{"axes", axes}});
    return out;
  };
}

void add_class_losses(Registry& r) {
  r.add({.name = "nll_loss",
         .doc = "-x[target], weighted; mean divides by the sum of the weights of the targets that "
                "are not ignored.",
         .inputs = {"log_probabilities: float", "target: i32", "weight: log_probabilities?"},
         .outputs = {"loss"},
         .attrs = {kReduction, kIgnored},
         .infer = [](const InferContext& c) { return std::vector{class_loss(c, 1, 2)}; },
         .grad =
             [](GradBuilder& g) {
               return std::vector<Value*>{g.emit(
                   "nll_loss_grad", {g.x(0), g.x(1), g.op().operand(2), g.dy(0)}, loss_attrs(g))};
             },
         .cost = per_operand_element(1),
         .popart_type = "Nll"});
  r.add({.name = "nll_loss_grad",
         .doc = "The gradient of nll_loss's first operand.",
         .inputs = {"log_probabilities: float", "target: i32", "weight: log_probabilities?",
                    "dloss: log_probabilities"},
         .outputs = {"dx"},
         .attrs = {kReduction, kIgnored},
         .infer = loss_gradient,
         .grad = of_loss_gradient("nll_loss_grad"),
         .cost = per_operand_element(1),
         .popart_type = "NllGrad"});
  const ir::AttrDef smoothing = within({"label_smoothing", AttrType::kFloat, 0.0}, 0, 1);
  r.add({.name = "softmax_cross_entropy",
         .doc = "log_softmax over the class axis, then nll_loss with torch's label smoothing.",
         .inputs = {"logits: float", "target: i32", "weight: logits?"},
         .outputs = {"loss", "log_probabilities"},
         .attrs = {kReduction, kIgnored, smoothing},
         .infer =
             [](const InferContext& c) { return std::vector{class_loss(c, 1, 2), c.operand(0)}; },
         .grad =
             [](GradBuilder& g) {
               ir::Attrs attrs = loss_attrs(g);
               attrs.set("label_smoothing", g.attr<double>("label_smoothing"));
               Val dx = g.emit("softmax_cross_entropy_grad",
                               {g.y(1), g.x(1), g.op().operand(2), g.dy(0)}, attrs);
               if (g.has_dy(1)) {
                 const int64_t axis = g.x(0).type().rank() == 1 ? 0 : 1;
                 dx = dx + g.emit("log_softmax_grad", {g.y(1), g.dy(1)}, {{"axis", axis}});
               }
               return std::vector<Value*>{dx};
             },
         .cost = per_operand_element(12),
         .popart_type = "NllWithSoftmaxGradDirect"});
  r.add({.name = "softmax_cross_entropy_grad",
         .doc = "The gradient of softmax_cross_entropy's logits.",
         .inputs = {"log_probabilities: float", "target: i32", "weight: log_probabilities?",
                    "dloss: log_probabilities"},
         .outputs = {"dx"},
         .attrs = {kReduction, kIgnored, smoothing},
         .infer = loss_gradient,
         .grad = of_loss_gradient("softmax_cross_entropy_grad"),
         .cost = per_operand_element(10),
         .popart_type = "SoftmaxGradDirect"});
}

// identity_loss of a tensor already reduced by "none" is the tensor itself, with the mark.
void add_identity_loss(Registry& r) {
  r.add({.name = "identity_loss",
         .doc = "Marks x, its mean or its sum as the loss, where backpropagation begins with ones.",
         .role = Role::kLoss,
         .inputs = {"x: float"},
         .outputs = {"loss"},
         .attrs =
             {kReduction,
              {"of", AttrType::kString, std::string(), {}, "torch's loss function, by its name"}},
         .infer =
             [](const InferContext& c) {
               bool whole = c.attr<std::string>("reduction") == "none";
               return std::vector{Type{c.operand(0).dtype, whole ? c.operand(0).shape : Shape{}}};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           const Type& x = g.x(0).type();
           if (g.attr<std::string>("reduction") == "mean") {
             dy = dy / static_cast<double>(x.elements());
           }
           return broadcast_to(g, dy, x.shape);
         }),
         .cost = per_operand_element(1),
         .mark = true,
         .popart_type = "IdentityLoss"});
}

}  // namespace

void add_loss_ops(Registry& r) {
  add_class_losses(r);
  add_identity_loss(r);
}

}  // namespace poptorch::ops
