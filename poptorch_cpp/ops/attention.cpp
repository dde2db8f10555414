// Scaled dot-product attention as one op.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

std::vector<Type> infer_attention(const InferContext& c) {
  const Type &q = c.operand(0), &k = c.operand(1), &v = c.operand(2);
  for (size_t i = 0; i < 3; ++i) {
    if (c.operand(i).rank() != 4) c.fail("q, k and v must be [batch, heads, length, width].");
  }
  bool fits = q.shape[0] == k.shape[0] && q.shape[1] == k.shape[1] && q.shape[3] == k.shape[3] &&
              v.shape[0] == k.shape[0] && v.shape[1] == k.shape[1] && v.shape[2] == k.shape[2];
  if (!fits) c.fail(str("q ", q, ", k ", k, " and v ", v, " do not fit together."));
  if (c.has(3)) {
    Shape scores = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
    if (ir::broadcast(c.operand(3).shape, scores) != scores) {
      c.fail(str("mask ", c.operand(3), " does not broadcast to ", ir::shape_text(scores), "."));
    }
  }
  Type statistics{q.dtype == DType::kF64 ? DType::kF64 : DType::kF32,
                  {q.shape[0], q.shape[1], q.shape[2]}};
  return {Type{q.dtype, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}}, statistics};
}

Cost attention_cost(const Op& op, double products) {
  const Shape &q = op.operand(0)->type().shape, &k = op.operand(1)->type().shape;
  double multiplies = static_cast<double>(ir::element_count(q)) * static_cast<double>(k[2]);
  if (op.attr<bool>("causal")) multiplies /= 2;
  return {2.0 * products * multiplies, bytes_of(op), true};
}

}  // namespace

void add_attention_ops(Registry& r) {
  const std::vector<ir::AttrDef> attrs =
      planned({{"causal", AttrType::kBool, false}, {"scale", AttrType::kFloat}});
  r.add({.name = "attention",
         .doc = "softmax(scale · q·kᵀ + mask) · v over the last two axes, and the log of each "
                "softmax's denominator. `causal`: query i sees keys 0 to i. A query whose mask is "
                "-infinity everywhere has the result 0, the logarithm +infinity and no gradient.",
         .inputs = {"q: float", "k: q", "v: q", "mask: q?"},
         .outputs = {"o", "logsumexp"},
         .attrs = attrs,
         .infer = infer_attention,
         .grad =
             [](GradBuilder& g) {
               ir::Attrs attrs = plan_of(g);
               attrs.set("causal", g.attr<bool>("causal"));
               attrs.set("scale", g.attr<double>("scale"));
               Op* op = g.builder().emit(
                   "attention_grad",
                   {g.x(0), g.x(1), g.x(2), g.op().operand(3), g.y(0), g.y(1), g.dy(0)}, attrs);
               std::vector<Value*> out = {op->result(0), op->result(1), op->result(2), nullptr};
               if (g.has(3) && g.needs(3)) {
                 // The mask is seldom trained: its gradient is computed from basic ops.
                 double scale = g.attr<double>("scale");
                 auto product = [&](Val a, Val b) {
                   ir::Attrs transposed = plan_of(g);
                   transposed.set("transpose_b", true);
                   return g.emit("matmul", {a, b}, transposed);
                 };
                 Shape column = g.y(1).type().shape;
                 column.push_back(1);
                 DType dtype = g.x(0).type().dtype;
                 Val statistics =
                     g.emit("cast", {reshape_to(g, g.y(1), column)}, {{"dtype", dtype}});
                 Val scores = product(g.x(0), g.x(1)) * scale + g.x(3);
                 Val weights = g.emit("exp", {scores - statistics});
                 Val delta =
                     g.emit("sum", {g.dy(0) * g.y(0)}, {{"axes", Ints{3}}, {"keepdims", true}});
                 out[3] =
                     g.unbroadcast(weights * (product(g.dy(0), g.x(2)) - delta), g.x(3).type());
               }
               return out;
             },
         .cost = [](const Op& op) { return attention_cost(op, 2); }});
  r.add({.name = "attention_grad",
         .doc = "Gradients of attention's q, k and v.",
         .inputs = {"q: float", "k: q", "v: q", "mask: q?", "o: q", "logsumexp: float", "do: =o"},
         .outputs = {"dq", "dk", "dv"},
         .attrs = attrs,
         .infer =
             [](const InferContext& c) {
               const std::vector<Type> forward = infer_attention(c);
               require_type(c, 4, forward[0]);
               require_type(c, 5, forward[1]);
               return std::vector{c.operand(0), c.operand(1), c.operand(2)};
             },
         .grad = NoGradient{"second derivatives of attention are not supported"},
         .cost = [](const Op& op) { return attention_cost(op, 5); }});
}

}  // namespace poptorch::ops
