#include "ir/reorder.hpp"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "ir/effects.hpp"
#include "ir/op_def.hpp"

namespace poptorch::ir {
namespace {

using Ops = std::unordered_set<const Op*>;  // look-up only

bool needs_any(const Op& op, const Ops& ops) {
  const auto in = [&](const Op* other) { return other && ops.count(other) != 0; };
  const auto made = [&](const Value* v) { return v && in(v->producer()); };
  return std::any_of(op.operands().begin(), op.operands().end(), made) ||
         std::any_of(op.after().begin(), op.after().end(), in);
}

// Returns `last` and the ops of `span` that it needs, directly or not. `span` is in list order.
Ops behind(const std::vector<Op*>& span, const Op* last) {
  Ops needed{last};
  for (auto it = span.rbegin(); it != span.rend(); ++it) {
    if (!needed.count(*it)) continue;
    for (const Value* operand : (*it)->operands()) {
      if (operand && operand->producer()) needed.insert(operand->producer());
    }
    needed.insert((*it)->after().begin(), (*it)->after().end());
  }
  return needed;
}

// Returns the first op of `span` and the ops that need it, directly or not.
Ops following(const std::vector<Op*>& span) {
  Ops found{span.front()};
  for (const Op* op : span) {
    if (needs_any(*op, found)) found.insert(op);
  }
  return found;
}

bool can_pass(const std::vector<Op*>& span, const Ops& moved) {
  bool pure = true, effects = false;
  for (const Op* op : span) {
    if (!moved.count(op)) {
      effects |= !is_removable(*op);
    } else if (!op->def().is_leaf()) {
      if (!is_repeatable(*op)) return false;
      pure &= is_pure(*op);
    }
  }
  return pure || !effects;
}

}  // namespace

bool bring_before(Value& value, Op& op, bool dry) {
  Op* const maker = value.producer();
  if (!maker || maker->is_before(&op)) return true;
  std::vector<Op*> span;
  for (Op* each = &op; each != maker; each = each->next()) span.push_back(each);
  span.push_back(maker);
  const Ops needed = behind(span, maker);
  if (needed.count(&op)) return false;
  const Ops later = following(span);
  const bool up = can_pass(span, needed);
  if (!up && !can_pass(span, later)) return false;
  if (dry) return true;
  Op* const place = up ? &op : maker->next();
  for (Op* each : span) {
    if ((up ? needed : later).count(each)) each->graph().move_before(each, place);
  }
  return true;
}

}  // namespace poptorch::ir
