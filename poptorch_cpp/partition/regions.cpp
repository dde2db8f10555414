#include "partition/regions.hpp"

#include <algorithm>
#include <vector>

#include "ir/op_def.hpp"
#include "ir/roles.hpp"

namespace poptorch::partition {

using ir::Graph;
using ir::Op;
using ir::Value;

// Returns the IPU of the first use that names one, or else that of the first use of what is made
// from the value; -1: none is named.
int Regions::find_first_use(const Value& value, Seen& seen) const {
  std::vector<ir::Use> uses;
  for (const ir::Use& use : value.uses()) {
    if (use.op) uses.push_back(use);
  }
  std::sort(uses.begin(), uses.end(), [](const ir::Use& a, const ir::Use& b) {
    return a.op != b.op && a.op->is_before(b.op);
  });
  for (const ir::Use& use : uses) {
    const int ipu = operand_ipu(*use.op, use.index, use.op->placement.ipu);
    if (ipu >= 0) return ipu;
  }
  for (const ir::Use& use : uses) {
    if (!seen.insert(use.op).second) continue;
    for (size_t i = 0; i < use.op->result_count(); ++i) {
      const int ipu = find_first_use(*use.op->result(i), seen);
      if (ipu >= 0) return ipu;
    }
  }
  return -1;
}

int Regions::first_use(const Value& value) const {
  if (const auto known = first_uses_.find(&value); known != first_uses_.end()) return known->second;
  Seen seen;
  const int found = find_first_use(value, seen);
  return first_uses_[&value] = found;
}

// Returns where a value of a body is: an op that names no IPU is where its operands are. -1: none
// is named.
int Regions::find_home(const Value& value, Seen& seen) const {
  const Op* op = value.producer();
  if (!op) return first_use(value);
  if (op->placement.ipu >= 0 || op->role() == ir::Role::kRegion) {
    size_t index = 0;
    while (op->result(index) != &value) ++index;
    return result_ipu(*op, index, op->placement.ipu);
  }
  if (!seen.insert(op).second) return -1;
  for (const Value* operand : op->operands()) {
    const int found = operand ? find_home(*operand, seen) : -1;
    if (found >= 0) return found;
  }
  return -1;
}

int Regions::home_of(const Value& value, int own) const {
  auto known = homes_.find(&value);
  if (known == homes_.end()) {
    Seen seen;
    const int found = find_home(value, seen);
    known = homes_.emplace(&value, found).first;
  }
  return known->second >= 0 ? known->second : own;
}

int Regions::operand_ipu(const Op& op, size_t index, int own) const {
  if (op.role() != ir::Role::kRegion) return own;
  if (ir::is_choice(op)) {
    const size_t first = ir::first_argument(op);
    for (size_t i = 0; index >= first && i < op.def().bodies.size(); ++i) {
      const int used = first_use(*ir::body_of(op, i).inputs()[index - first]);
      if (used >= 0) return used;
    }
    return own;
  }
  const Graph& body = ir::body_of(op);
  const size_t carried = op.result_count();
  // A value that a round only passes on is where the previous round has it from.
  for (size_t rounds = 0, at = index; rounds <= carried; ++rounds) {
    const int used = first_use(*body.inputs()[at]);
    if (used >= 0 || at >= carried) return used >= 0 ? used : own;
    const Value* next = body.outputs()[at];
    if (next->producer()) return home_of(*next, own);
    at = 0;
    while (body.inputs()[at].get() != next) ++at;
  }
  return own;
}

int Regions::result_ipu(const Op& op, size_t index, int own) const {
  if (const auto target = ir::target_ipu(op)) return *target;
  if (op.role() != ir::Role::kRegion) return own;
  if (ir::is_loop(op)) return operand_ipu(op, index, own);
  return home_of(*ir::body_of(op).outputs()[index], own);
}

}  // namespace poptorch::partition
