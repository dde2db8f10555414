#include "partition/defer_gradients.hpp"

#include <algorithm>
#include <unordered_set>

#include "ir/effects.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "partition/place.hpp"
#include "support/saturate.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Value;
using support::saturating_product;
using support::saturating_sum;

class Deferral {
 public:
  Deferral(ir::Graph& main, int64_t forward_stages)
      : main_(main), first_stage_(static_cast<int>(forward_stages) - 1) {
    for (const Op* op : main.ops()) {
      for (int index : op->def().writes) {
        const Value* value = op->operand(static_cast<size_t>(index));
        if (value && is_inner(*op)) written_.insert(ir::memory_root(value));
      }
    }
  }

  void run() {
    std::vector<Op*> ops = main_.op_list();
    std::reverse(ops.begin(), ops.end());
    for (Op* op : ops) consider(*op);
  }

 private:
  // Ops that move together to the stage of the first op that uses their last one.
  struct Group {
    std::vector<Op*> ops;
    std::unordered_set<const Value*> results;  // look-up only
    std::vector<const Value*> enters;
    int stage = 0;
  };

  bool may_move(const Op& op) const {
    return is_inner(op) && op.placement.stage >= first_stage_ && ir::is_pure(op) &&
           op.role() != ir::Role::kCopy && !ir::is_checkpoint(op) && op.after().empty() &&
           std::none_of(op.operands().begin(), op.operands().end(), [&](const Value* value) {
             return value && written_.count(ir::memory_root(value)) > 0;
           });
  }

  // Returns the earliest stage that uses the results of `op`, or -1 unless only later stages of
  // its IPU use them.
  static int stage_of_uses(const Op& op) {
    int first = -1;
    for (size_t i = 0; i < op.result_count(); ++i) {
      for (const ir::Use& use : op.result(i)->uses()) {
        if (!use.op || !is_inner(*use.op) || use.op->placement.ipu != op.placement.ipu) return -1;
        const int stage = use.op->placement.stage;
        if (stage <= op.placement.stage) return -1;
        first = first < 0 ? stage : std::min(first, stage);
      }
    }
    return first;
  }

  void consider(Op& last) {
    if (!may_move(last)) return;
    Group group;
    group.stage = stage_of_uses(last);
    if (group.stage < 0) return;
    add(group, last);
    int64_t kept = bytes_kept(group);
    for (bool grows = true; grows;) {
      grows = false;
      for (const Value* value : group.enters) {
        Op* producer = value->producer();
        if (!producer || !joins(*producer, group, last)) continue;
        Group larger = group;
        add(larger, *producer);
        const int64_t needed = bytes_kept(larger);
        if (needed > kept) continue;
        group = std::move(larger);
        kept = needed;
        grows = true;
        break;
      }
    }
    int64_t results = 0;
    for (size_t i = 0; i < last.result_count(); ++i) {
      results = saturating_sum(results, waiting_bytes(*last.result(i), last, group.stage));
    }
    if (kept < results) move(group, last);
  }

  // Whether only the group uses the results of `op`, which is in the same stage as `last`.
  bool joins(const Op& op, const Group& group, const Op& last) const {
    if (!may_move(op) || op.placement.stage != last.placement.stage ||
        op.placement.ipu != last.placement.ipu) {
      return false;
    }
    for (size_t i = 0; i < op.result_count(); ++i) {
      for (const ir::Use& use : op.result(i)->uses()) {
        if (!use.op || std::find(group.ops.begin(), group.ops.end(), use.op) == group.ops.end()) {
          return false;
        }
      }
    }
    return true;
  }

  static void add(Group& group, Op& op) {
    group.ops.push_back(&op);
    for (size_t i = 0; i < op.result_count(); ++i) group.results.insert(op.result(i));
    for (const Value* value : op.operands()) {
      if (value) group.enters.push_back(value);
    }
    std::erase_if(group.enters, [&](const Value* value) { return group.results.count(value) > 0; });
  }

  // Returns the bytes of one value for each stage that it would wait.
  static int64_t waiting_bytes(const Value& value, const Op& op, int stage) {
    return saturating_product(value.type().bytes(), std::max(0, stage - op.placement.stage));
  }

  // Returns the bytes that would wait for the group, beyond those that wait for other ops.
  int64_t bytes_kept(const Group& group) const {
    int64_t bytes = 0;
    std::unordered_set<const Value*> seen;
    const Op& op = *group.ops.front();
    for (const Value* value : group.enters) {
      if (!seen.insert(value).second || !is_kept(*value)) continue;
      int last_use = op.placement.stage;
      for (const ir::Use& use : value->uses()) {
        const bool here = use.op && is_inner(*use.op) &&
                          use.op->placement.ipu == op.placement.ipu &&
                          std::find(group.ops.begin(), group.ops.end(), use.op) == group.ops.end();
        if (here) last_use = std::max(last_use, use.op->placement.stage);
      }
      const int more = std::max(0, group.stage - last_use);
      bytes = saturating_sum(bytes, saturating_product(value->type().bytes(), more));
    }
    return bytes;
  }

  // Returns whether a stash keeps the value: state and what follows from constants needs none.
  bool is_kept(const Value& value) const {
    return !ir::is_state(&value) && !state_read(&value) &&
           !(value.producer() && !has_place(*value.producer()));
  }

  void move(const Group& group, const Op& last) {
    Op* user = nullptr;
    for (size_t i = 0; i < last.result_count(); ++i) {
      for (const ir::Use& use : last.result(i)->uses()) {
        if (!user || use.op->is_before(user)) user = use.op;
      }
    }
    std::vector<Op*> ops = group.ops;
    std::sort(ops.begin(), ops.end(),
              [](const Op* a, const Op* b) { return a != b && a->is_before(b); });
    for (Op* op : ops) {
      op->placement.stage = group.stage;
      main_.move_before(op, user);
    }
  }

  ir::Graph& main_;
  int first_stage_;                           // of those that have ops of the backward pass
  std::unordered_set<const Value*> written_;  // once a micro-batch; look-up only
};

}  // namespace

void defer_gradients(ir::Graph& main, const ir::Execution& execution) {
  if (execution.training && execution.forward_stages > 1) {
    Deferral(main, execution.forward_stages).run();
  }
}

}  // namespace poptorch::partition
