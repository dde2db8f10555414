// Ops that read and write named state.
#include "ir/module.hpp"
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

std::vector<Type> checked_write(const InferContext& c) {
  require_shape(c, 1, c.operand(0).shape);
  return {};
}

// A declared slot has one type. The verifier refuses an op whose slot is not declared.
std::vector<Type> infer_variable(const InferContext& c) {
  const auto& name = c.attr<std::string>("name");
  const ir::StateSlot* slot = c.module() ? c.module()->find_state(name) : nullptr;
  if (slot && (c.stated.size() != 1 || c.stated[0] != slot->type)) {
    c.fail(support::str("state '", name, "' is ", slot->type, "."));
  }
  if (c.stated.size() != 1) c.fail("needs its result type stated.");
  return c.stated;
}

}  // namespace

void add_state_ops(Registry& r) {
  const NoGradient writes{"it writes state"};
  r.add({.name = "variable",
         .doc = "The state slot `name`: memory that outlives a run.",
         .role = Role::kState,
         .inputs = {},
         .outputs = {"y"},
         .attrs = {{"name", AttrType::kString}},
         .infer = infer_variable,
         .grad = NoGradient{"a variable has no operands"},
         .cost = no_cost()});
  r.add({.name = "assign",
         .doc = "dst becomes src; a number fills all of dst.",
         .inputs = {"dst", "src: dst"},
         .outputs = {},
         .infer =
             [](const InferContext& c) {
               if (c.operand(1).rank() == 0) return std::vector<Type>{};
               return checked_write(c);
             },
         .grad = writes,
         .cost = moves_data(),
         .writes = {0},
         .elementwise = true,
         .popart_type = "CopyVarUpdate"});
  r.add({.name = "accumulate",
         .doc = "dst becomes dst + scale · src, in dst's element type.",
         .role = Role::kAccumulation,
         .inputs = {"dst: float", "src: float"},
         .outputs = {},
         .attrs = {{"scale", AttrType::kFloat, 1.0}, kStochasticRounding},
         .infer = checked_write,
         .grad = writes,
         .cost = per_operand_element(2),
         .writes = {0},
         .elementwise = true,
         .popart_type = "Accumulate"});
  r.add({.name = "parameter_gradient",
         .doc =
             "Marks x as the gradient of a parameter's slot; the optimiser's lowering replaces it.",
         .role = Role::kGradient,
         .inputs = {"x: float"},
         .outputs = {},
         .attrs = {{"parameter", AttrType::kString}},
         .infer = nothing(),
         .grad = NoGradient{"it has no results"},
         .cost = no_cost(),
         .side_effect = true});
  r.add({.name = "increment",
         .doc = "dst becomes dst + by.",
         .inputs = {"dst: number"},
         .outputs = {},
         .attrs = {{"by", AttrType::kFloat, 1.0}},
         .infer = nothing(),
         .grad = writes,
         .cost = per_operand_element(1),
         .writes = {0},
         .elementwise = true});
}

}  // namespace poptorch::ops
