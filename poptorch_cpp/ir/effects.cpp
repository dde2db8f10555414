// Implements effects.hpp.
#include "ir/effects.hpp"

#include "ir/module.hpp"

namespace poptorch::ir {
namespace {

bool calls_impure_graph(const Op& op) {
  for (const auto& [key, value] : op.attrs()) {
    const auto* reference = std::get_if<GraphRef>(&value);
    if (!reference) continue;
    const Graph* callee = op.graph().module().find_graph(reference->name);
    if (!callee) continue;
    for (Op* inner : callee->ops()) {
      if (!is_pure(*inner)) return true;
    }
  }
  return false;
}

bool writes_through_reference(const Op& op) {
  for (const auto& [key, value] : op.attrs()) {
    const auto* reference = std::get_if<GraphRef>(&value);
    if (!reference) continue;
    const Graph* callee = op.graph().module().find_graph(reference->name);
    if (!callee) continue;
    for (Op* inner : callee->ops()) {
      if (!is_removable(*inner)) return true;
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
  return op ? op->is("variable") : value->by_reference();
}

bool is_pure(const Op& op) {
  if (op.def().has_effect() || op.def().random || op.is("variable")) return false;
  for (const Value* operand : op.operands()) {
    if (operand && is_state(memory_root(operand))) return false;
  }
  return !calls_impure_graph(op);
}

bool is_removable(const Op& op) { return !op.def().has_effect() && !writes_through_reference(op); }

}  // namespace poptorch::ir
