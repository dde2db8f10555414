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

void add_pair(Registry& r, const std::string& name, const char* doc, const char* grad_doc,
              const char* popart) {
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
         .grad = NoGradient{"second derivatives of " + name + " are not supported"},
         .cost = per_element(8),
         .popart_type = std::string(popart) + "Grad"});
}

}  // namespace

void add_softmax_ops(Registry& r) {
  add_pair(r, "softmax", "exp(x) over its sum along the axis.", "y · (dy - Σ dy·y).", "Softmax");
  add_pair(r, "log_softmax", "x - log Σ exp(x) along the axis.", "dy - exp(y) · Σ dy.",
           "LogSoftmax");
}

}  // namespace poptorch::ops
