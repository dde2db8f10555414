#include "ir/effects.hpp"

#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"

namespace poptorch::ir {
namespace {

// Returns whether `holds` is true of any op in the graphs that `op` names.
template <typename Holds>
bool any_inner(const Op& op, Holds holds) {
  for (const auto& [name, runs] : named_graphs(op)) {
    const Graph* callee = op.graph().module().find_graph(name);
    if (!callee) continue;
    for (Op* inner : callee->ops()) {
      if (holds(*inner)) return true;
    }
  }
  return false;
}

}  // namespace

const Value* memory_root(const Value* value) {
  while (const Op* op = value->producer()) {
    const auto& writes = op->def().writes;
    if (value->index() >= writes.size()) break;
    const Value* written = op->operand(static_cast<size_t>(writes[value->index()]));
    if (!written) break;
    value = written;
  }
  return value;
}

bool is_state(const Value* value) {
  const Op* op = value->producer();
  return op ? op->role() == Role::kState : value->by_reference();
}

bool is_pure(const Op& op) {
  if (op.def().has_effect() || op.def().random || op.role() == Role::kState) return false;
  for (const Value* operand : op.operands()) {
    if (operand && is_state(memory_root(operand))) return false;
  }
  return !any_inner(op, [](const Op& inner) { return !is_pure(inner); });
}

bool is_repeatable(const Op& op) {
  return !op.def().has_effect() && !op.def().random &&
         !any_inner(op, [](const Op& inner) { return !is_repeatable(inner); });
}

bool is_removable(const Op& op) {
  return !op.def().has_effect() &&
         !any_inner(op, [](const Op& inner) { return !is_removable(inner); });
}

}  // namespace poptorch::ir
