// An op that moves is put after its anchor: the last op that stays and that it must follow. Ops
// with one anchor keep their order among themselves.
#include "lowering/schedule.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/effects.hpp"
#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/flat_map.hpp"
#include "support/watch.hpp"

namespace poptorch::lowering {
namespace {

using ir::Op;
using ir::Value;

constexpr int kStart = -1;  // the anchor of ops that depend on nothing

// Numbers the memory that ops write from 1: state slots (two reads of a slot are one memory) and
// values that are written in place.
class Memory {
 public:
  explicit Memory(const std::vector<Op*>& ops) {
    for (const Op* op : ops) {
      for (int index : op->def().writes) {
        if (const Value* value = op->operand(static_cast<size_t>(index))) {
          written_.insert(ir::memory_root(value));
        }
      }
    }
  }

  // Returns 0 for values that nothing can change.
  int of(const Value* value) {
    const Value* root = ir::memory_root(value);
    if (!ir::is_state(root) && !written_.contains(root)) return 0;
    const int next = static_cast<int>(slots_.size() + values_.size()) + 1;
    if (const std::string* slot = ir::slot_of(root->producer())) {
      return slots_.emplace(*slot, next).first->second;
    }
    return values_.try_emplace(root, next).first->second;
  }

 private:
  // These are for look-up only.
  support::FlatSet<const Value*> written_;
  std::unordered_map<std::string, int> slots_;
  support::FlatMap<const Value*, int> values_;
};

class Scheduler {
 public:
  explicit Scheduler(const ir::Graph& graph) : ops_(graph.op_list()), memory_(ops_) {
    index_.reserve(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) index_[ops_[i]] = static_cast<int>(i);
  }

  std::vector<const Op*> run() {
    note_computed_again();
    choose_movable();
    std::vector<std::vector<const Op*>> behind(ops_.size() + 1);
    anchors_.resize(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) {
      support::check_interrupt();
      const int at = static_cast<int>(i);
      anchors_[i] = movable_[i] ? anchor(*ops_[i]) : at;
      note_touches(*ops_[i], anchors_[i]);
      if (movable_[i]) behind[anchors_[i] + 1].push_back(ops_[i]);
    }
    std::vector<const Op*> order = behind[0];
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!movable_[i]) order.push_back(ops_[i]);
      order.insert(order.end(), behind[i + 1].begin(), behind[i + 1].end());
    }
    return order;
  }

 private:
  // Chooses leaves, writes of state whose results are unused, and pure ops that only such ops use.
  // A leaf runs nothing: were it to stay, the ops that use it would follow its place.
  void choose_movable() {
    movable_.assign(ops_.size(), false);
    for (size_t i = ops_.size(); i-- > 0;) {
      const Op& op = *ops_[i];
      movable_[i] = op.def().is_leaf();
      if (movable_[i] || op.def().side_effect || op.def().random || op.def().runs_graphs() ||
          !op.after().empty() || computed_again_.contains(&op)) {
        continue;
      }
      if (!op.def().writes.empty()) {
        movable_[i] = op.unused();
        continue;
      }
      movable_[i] = op.result_count() > 0 && !op.unused() && only_movable_uses(op);
    }
  }

  // A backward stage recomputes forward values where it needs them: earlier, all would live at
  // once. Such an op has the kind of its forward op, and none of its operands is a gradient, or it
  // is random.
  void note_computed_again() {
    support::FlatMap<uint64_t, const ir::OpDef*> defs(ops_.size());  // by op id
    for (const Op* op : ops_) {
      defs.try_emplace(op->id(), &op->def());
      const auto forward = defs.find(op->forward_id);
      if (op->forward_id == 0 || forward == defs.end() || forward->second != &op->def()) continue;
      const auto operands = op->operands();
      const bool free =
          !operands.empty() &&
          std::all_of(operands.begin(), operands.end(), [&](const Value* value) {
            const Op* producer = value ? value->producer() : nullptr;
            return !producer || producer->forward_id == 0 || computed_again_.contains(producer);
          });
      if (free || op->def().random) computed_again_.insert(op);
    }
  }

  bool only_movable_uses(const Op& op) const {
    for (size_t r = 0; r < op.result_count(); ++r) {
      for (const ir::Use& use : op.result(r)->uses()) {
        if (!use.op || !movable_[index_.at(use.op)]) return false;
      }
    }
    return true;
  }

  struct Touch {
    int write = kStart, any = kStart;  // anchors of the last write and of the last use
  };

  int anchor(const Op& op) {
    int last = barrier_;
    for (size_t i = 0; i < op.operand_count(); ++i) {
      const Value* value = op.operand(i);
      if (!value) continue;
      if (const Op* producer = value->producer()) {
        last = std::max(last, anchors_[index_.at(producer)]);
      }
      if (const int memory = memory_.of(value)) {
        const Touch& touch = touches_[memory];
        last = std::max(last, op.def().writes_operand(i) ? touch.any : touch.write);
      }
    }
    return last;
  }

  // Returns the memory that a value is, or that it is a cast of: a write that waits for the readers
  // of a cast lets them read the memory instead of a copy.
  int read_memory(const Value* value) {
    const int memory = memory_.of(value);
    const Op* producer = value->producer();
    const bool converted = !memory && producer && producer->role() == ir::Role::kCast;
    return converted ? memory_.of(producer->operand(0)) : memory;
  }

  void note_touches(const Op& op, int at) {
    if (op.def().runs_graphs()) barrier_ = at;  // a callee may use any slot
    for (size_t i = 0; i < op.operand_count(); ++i) {
      const int memory = op.operand(i) ? read_memory(op.operand(i)) : 0;
      if (!memory) continue;
      Touch& touch = touches_[memory];
      touch.any = std::max(touch.any, at);
      if (op.def().writes_operand(i)) touch.write = std::max(touch.write, at);
    }
  }

  std::vector<Op*> ops_;
  support::FlatMap<const Op*, int> index_;
  support::FlatSet<const Op*> computed_again_;
  std::vector<bool> movable_;
  std::vector<int> anchors_;
  support::FlatMap<int, Touch> touches_;  // by memory
  Memory memory_;
  int barrier_ = kStart;
};

}  // namespace

std::vector<const Op*> schedule_ops(const ir::Graph& graph) { return Scheduler(graph).run(); }

}  // namespace poptorch::lowering
