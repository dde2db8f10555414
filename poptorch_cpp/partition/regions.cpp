// Implements regions.hpp.
#include "partition/regions.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace poptorch::partition {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

// The graph that `op` runs, or of a conditional the first; nullptr for any other op.
const Graph* body_of(const ir::Module& module, const Op& op) {
  const char* attr = op.is("repeat") ? "graph" : op.is("if") ? "then" : nullptr;
  return attr ? module.find_graph(op.attr<ir::GraphRef>(attr).name) : nullptr;
}
const Graph& other_branch(const ir::Module& module, const Op& conditional) {
  return *module.find_graph(conditional.attr<ir::GraphRef>("else").name);
}

// Of the first use that names an IPU, or else of what is made from the value; -1: nothing does.
int first_use(const ir::Module& module, const Value& value, std::set<const Op*>& seen) {
  std::vector<ir::Use> uses;
  for (const ir::Use& use : value.uses()) {
    if (use.op) uses.push_back(use);
  }
  std::sort(uses.begin(), uses.end(), [](const ir::Use& a, const ir::Use& b) {
    return a.op != b.op && a.op->is_before(b.op);
  });
  for (const ir::Use& use : uses) {
    const int ipu = operand_ipu(module, *use.op, use.index, use.op->placement.ipu);
    if (ipu >= 0) return ipu;
  }
  for (const ir::Use& use : uses) {
    if (!seen.insert(use.op).second) continue;
    for (size_t i = 0; i < use.op->result_count(); ++i) {
      const int ipu = first_use(module, *use.op->result(i), seen);
      if (ipu >= 0) return ipu;
    }
  }
  return -1;
}

int first_use(const ir::Module& module, const Value& value) {
  std::set<const Op*> seen;
  return first_use(module, value, seen);
}

// Where a value of a body is: an op that names no IPU is where its operands are. -1: nothing says.
int home_of(const ir::Module& module, const Value& value, std::set<const Op*>& seen) {
  const Op* op = value.producer();
  if (!op) return first_use(module, value);
  if (op->placement.ipu >= 0 || body_of(module, *op)) {
    size_t index = 0;
    while (op->result(index) != &value) ++index;
    return result_ipu(module, *op, index, op->placement.ipu);
  }
  if (!seen.insert(op).second) return -1;
  for (const Value* operand : op->operands()) {
    const int found = operand ? home_of(module, *operand, seen) : -1;
    if (found >= 0) return found;
  }
  return -1;
}

int home_of(const ir::Module& module, const Value& value, int own) {
  std::set<const Op*> seen;
  const int found = home_of(module, value, seen);
  return found >= 0 ? found : own;
}

}  // namespace

int operand_ipu(const ir::Module& module, const Op& op, size_t index, int own) {
  const Graph* body = body_of(module, op);
  if (!body) return own;
  if (op.is("if")) {
    if (index == 0) return own;  // the condition
    const int used = first_use(module, *body->inputs()[index - 1]);
    const int other = first_use(module, *other_branch(module, op).inputs()[index - 1]);
    return used >= 0 ? used : other >= 0 ? other : own;
  }
  const size_t carried = op.result_count();
  // What a round only hands on is where the round before has it from.
  for (size_t rounds = 0, at = index; rounds <= carried; ++rounds) {
    const int used = first_use(module, *body->inputs()[at]);
    if (used >= 0 || at >= carried) return used >= 0 ? used : own;
    const Value* next = body->outputs()[at];
    if (next->producer()) return home_of(module, *next, own);
    at = 0;
    while (body->inputs()[at].get() != next) ++at;
  }
  return own;
}

int result_ipu(const ir::Module& module, const Op& op, size_t index, int own) {
  if (op.is("ipu_copy")) return static_cast<int>(op.attr<int64_t>("to"));
  const Graph* body = body_of(module, op);
  if (!body) return own;
  if (op.is("repeat")) return operand_ipu(module, op, index, own);
  return home_of(module, *body->outputs()[index], own);
}

}  // namespace poptorch::partition
