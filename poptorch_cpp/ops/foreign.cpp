// Ops whose kernels come from outside the core: any ATen op by its schema, and its gradient.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "ops/serial.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

bool has_gradient(const Val& x) {
  return ir::is_float(x.type().dtype) || ir::is_complex(x.type().dtype);
}

Cost generic_cost(const Op& op) { return Cost{.bytes = bytes_of(op), .steps = generic_steps(op)}; }

// The gradient computes the op again, then takes its steps in reverse.
Cost generic_gradient_cost(const Op& op) {
  return Cost{.bytes = bytes_of(op), .steps = 2 * generic_steps(op) - 1};
}

}  // namespace

void add_foreign_ops(Registry& r) {
  const std::vector<ir::AttrDef> attrs = {
      {"schema", AttrType::kString, std::nullopt, {}, "name.overload, as \"aten::tril\""},
      {"arguments",
       AttrType::kString,
       std::nullopt,
       {},
       "JSON of all arguments; tensors by index"}};
  r.add({.name = "aten",
         .doc = "An ATen op without a row in this table, run by ATen's kernel.",
         .role = Role::kOpaque,
         .inputs = {"xs: any*"},
         .outputs = {"ys*"},
         .attrs = attrs,
         .infer = as_stated(),
         .grad =
             [](GradBuilder& g) {
               // The operands are the op's own, then the existing gradients of floating or complex
               // results. An absent gradient differs from zero: torch omits its contribution.
               std::vector<Value*> operands = g.op().operands();
               Ints given;
               for (size_t i = 0; i < g.op().result_count(); ++i) {
                 if (!has_gradient(g.y(i)) || !g.has_dy(i)) continue;
                 given.push_back(static_cast<int64_t>(i));
                 operands.push_back(g.dy(i));
               }
               std::vector<Type> types;
               Ints wanted;
               for (size_t i = 0; i < g.op().operand_count(); ++i) {
                 if (!g.has(i) || !g.needs(i) || !has_gradient(g.x(i))) continue;
                 wanted.push_back(static_cast<int64_t>(i));
                 types.push_back(g.x(i).type());
               }
               std::vector<Value*> out(g.op().operand_count(), nullptr);
               if (wanted.empty()) return out;
               Op* op = g.builder().emit("aten_vjp", operands,
                                         {{"schema", g.attr<std::string>("schema")},
                                          {"arguments", g.attr<std::string>("arguments")},
                                          {"given", given},
                                          {"wanted", wanted}},
                                         types);
               for (size_t i = 0; i < wanted.size(); ++i) out[wanted[i]] = op->result(i);
               return out;
             },
         .cost = generic_cost,
         .provider = "aten"});
  std::vector<ir::AttrDef> vjp = attrs;
  vjp.push_back(
      at_least(0, {"given", AttrType::kInts, std::nullopt, {}, "results that have gradients"}));
  vjp.push_back(
      at_least(0, {"wanted", AttrType::kInts, std::nullopt, {}, "operands to differentiate"}));
  r.add({.name = "aten_vjp",
         .doc = "Gradients of an ATen op's operands by torch's own derivative.",
         .role = Role::kOpaque,
         .inputs = {"xs: any*"},
         .outputs = {"dxs*"},
         .attrs = vjp,
         .infer =
             [](const InferContext& c) {
               const size_t given = c.attr<Ints>("given").size();
               if (given == 0 || given >= c.operand_count()) {
                 c.fail(support::str("'given' names ", given, " results, but of its ",
                                     c.operand_count(),
                                     " operands the last are their gradients, one each."));
               }
               std::vector<Type> gradients;
               for (int64_t i : c.attr<Ints>("wanted")) {
                 const auto operand = static_cast<size_t>(i);
                 if (!c.has(operand)) {
                   c.fail(support::str("there is no operand ", i, " to differentiate."));
                 }
                 gradients.push_back(c.operand(operand));
               }
               return gradients;
             },
         .grad = NoGradient{"second derivatives of generic ops are not supported"},
         .cost = generic_gradient_cost,
         .provider = "aten"});
}

}  // namespace poptorch::ops
