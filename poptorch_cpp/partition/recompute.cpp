#include "partition/recompute.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "partition/place.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Value;

class Recomputation {
 public:
  Recomputation(ir::Graph& main, int64_t forward_stages)
      : main_(main), last_stage_(2 * (static_cast<int>(forward_stages) - 1)) {
    for (const Op* op : main.ops()) {
      if (!is_inner(*op)) continue;
      for (int index : op->def().writes) {
        const Value* value = op->operand(static_cast<size_t>(index));
        const Op* variable = value ? state_read(value) : nullptr;
        if (variable) written_.insert(*ir::slot_of(variable));
      }
    }
  }

  void run() {
    for (Op* user : main_.op_list()) {
      if (!is_inner(*user) || 2 * user->placement.stage <= last_stage_) continue;
      copy_producers(*user);
      for (size_t i = 0; i < user->operand_count(); ++i) {
        if (user->operand(i)) user->set_operand(i, current(user->operand(i)));
      }
    }
  }

 private:
  // Whether `op` is in the forward stage of the `user`'s backward stage, and can run again there.
  bool runs_again(const Op* op, const Op& user) const {
    return op && is_inner(*op) && op->placement.ipu == user.placement.ipu &&
           op->placement.stage == last_stage_ - user.placement.stage && is_repeatable(*op);
  }

  bool is_repeatable(const Op& op) const {
    const ir::OpDef& def = op.def();
    if (def.has_effect() || def.random || def.runs_graphs() || def.role == ir::Role::kOpaque ||
        ir::is_checkpoint(op)) {
      return false;
    }
    return std::none_of(op.operands().begin(), op.operands().end(), [&](const Value* value) {
      const Op* variable = value ? state_read(value) : nullptr;
      return variable && written_.count(*ir::slot_of(variable));
    });
  }

  // Inserts, before `user`, copies of all ops that it needs to run again, in the list's order.
  void copy_producers(Op& user) {
    std::vector<Op*> found, open = {&user};
    std::unordered_set<const Op*> seen;
    while (!open.empty()) {
      const Op* op = open.back();
      open.pop_back();
      for (const Value* value : op->operands()) {
        Op* producer = value && !copies_.count(value) ? value->producer() : nullptr;
        if (!runs_again(producer, user) || !seen.insert(producer).second) continue;
        found.push_back(producer);
        open.push_back(producer);
      }
    }
    std::sort(found.begin(), found.end(),
              [](const Op* a, const Op* b) { return a != b && a->is_before(b); });
    for (const Op* op : found) copy(*op, user);
  }

  void copy(const Op& op, Op& user) {
    std::vector<Value*> operands;
    for (Value* value : op.operands()) operands.push_back(value ? current(value) : nullptr);
    std::vector<ir::Type> types;
    for (size_t i = 0; i < op.result_count(); ++i) types.push_back(op.result(i)->type());
    Op* again = main_.insert(op.def(), std::move(operands), op.attrs(), std::move(types), &user);
    again->placement = user.placement;
    again->take_origin(op);
    again->forward_id = op.id();
    for (size_t i = 0; i < op.result_count(); ++i) {
      again->result(i)->set_name(op.result(i)->name());
      copies_[op.result(i)] = again->result(i);
    }
  }

  Value* current(Value* value) const {
    auto it = copies_.find(value);
    return it == copies_.end() ? value : it->second;
  }

  ir::Graph& main_;
  int last_stage_;  // the backward stage of forward stage 0
  std::set<support::Symbol> written_;
  std::unordered_map<const Value*, Value*> copies_;  // look-up only
};

}  // namespace

void recompute_forward(ir::Module& module) {
  const ir::Execution& execution = module.execution();
  if (execution.training && execution.recompute && execution.forward_stages > 1) {
    Recomputation(module.main(), execution.forward_stages).run();
  }
}

}  // namespace poptorch::partition
