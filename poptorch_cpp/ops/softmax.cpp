// Softmax and its logarithm along one axis.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"

namespace poptorch::ops {
namespace {

InferRule along_axis() {
  return [](const InferContext& c) {
    checked_axis(c, c.attr<int64_t>("axis"), c.operand(0).rank());
    return std::vector{c.operand(0)};
  };
}

Val sum_along(GradBuilder& g, Val x) {
  return g.emit("sum", {x}, {{"axes", Ints{g.attr<int64_t>("axis")}}, {"keepdims", true}});
}

// Differentiates y · (dy - Σ dy·y), which is symmetric in dy.
std::vector<Value*> softmax_grad_gradient(GradBuilder& g) {
  const Val y = g.x(0), dy = g.x(1), v = g.dy(0);
  const Val of_y = v * (dy - sum_along(g, dy * y)) - dy * sum_along(g, v * y);
  return {of_y, g.emit("softmax_grad", {y, v}, {{"axis", g.attr<int64_t>("axis")}})};
}

// Differentiates dy - exp(y) · Σ dy.
std::vector<Value*> log_softmax_grad_gradient(GradBuilder& g) {
  const Val p = g.emit("exp", {g.x(0)}), dy = g.x(1), v = g.dy(0);
  return {-(v * p * sum_along(g, dy)), v - sum_along(g, v * p)};
}

void add_pair(Registry& r, const std::string& name, const char* doc, const char* grad_doc,
              const char* popart, const GradRule& second) {
  r.add({.name = name,
         .doc = doc,
         .inputs = {"x: float"},
         .outputs = {"y"},
         .attrs = {{"axis", AttrType::kInt}},
         .infer = along_axis(),
         .grad =
             [name](GradBuilder& g) {
               return std::vector<Value*>{
                   g.emit(name + "_grad", {g.y(0), g.dy(0)}, {{"axis", g.attr<int64_t>("axis")}})};
             },
         .cost = per_element(12),
         .popart_type = popart});
  r.add({.name = name + "_grad",
         .doc = grad_doc,
         .inputs = {"y: float", "dy: =y"},
         .outputs = {"dx"},
         .attrs = {{"axis", AttrType::kInt}},
         .infer = along_axis(),
         .grad = in_f32(second),
         .cost = per_element(8),
         .popart_type = std::string(popart) + "Grad"});
}

}  // namespace

void add_softmax_ops(Registry& r) {
  add_pair(r, "softmax", "exp(x) over its sum along the axis.", "y · (dy - Σ dy·y).", "Softmax",
           softmax_grad_gradient);
  add_pair(r, "log_softmax", "x - log Σ exp(x) along the axis.", "dy - exp(y) · Σ dy.",
           "LogSoftmax", log_softmax_grad_gradient);
}

}  // namespace poptorch::ops
