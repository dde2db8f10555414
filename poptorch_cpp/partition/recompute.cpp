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
  Recomputation(ir::Graph& main, const ir::Execution& execution)
      : main_(main),
        last_stage_(2 * (static_cast<int>(execution.forward_stages) - 1)),
        at_once_(execution.recompute_alone) {
    for (const Op* op : main.ops()) {
      if (!is_inner(*op)) continue;
      if (ir::is_checkpoint(*op)) {
        kept_.emplace(op->operand(0), op->result());
        last_checkpoint_ = op;
      }
      for (int index : op->def().writes) {
        const Value* value = op->operand(static_cast<size_t>(index));
        const Op* variable = value ? state_read(value) : nullptr;
        if (variable) written_.insert(*ir::slot_of(variable));
      }
    }
  }

  void run() {
    if (!has_stages() && !last_checkpoint_) return;
    for (Op* user : main_.op_list()) {
      if (!is_inner(*user) || !is_late(*user)) continue;
      copy_producers(*user);
      for (size_t i = 0; i < user->operand_count(); ++i) {
        if (user->operand(i)) user->set_operand(i, current(user->operand(i), *user));
      }
    }
  }

 private:
  bool has_stages() const { return last_stage_ > 0; }

  // Whether the backward pass of the op follows its forward pass at once: in the last stage, or
  // without stages.
  bool follows(const Op& op) const {
    return !has_stages() || 2 * op.placement.stage == last_stage_;
  }

  // Whether the op belongs to a backward pass that recomputes.
  bool is_late(const Op& op) const {
    if (follows(op)) return at_once_ && op.forward_id != 0;
    return 2 * op.placement.stage > last_stage_;
  }

  // Whether `op` is in the forward stage of the `user`'s backward stage, and can run again there.
  // If the backward pass follows at once, `op` must be before the last checkpoint: later values
  // would be computed again while they are all still there.
  bool runs_again(const Op* op, const Op& user) const {
    if (!op || !is_inner(*op) || op->placement.ipu != user.placement.ipu) return false;
    if (has_stages() && op->placement.stage != last_stage_ - user.placement.stage) return false;
    if (follows(user) &&
        (op->forward_id != 0 || !last_checkpoint_ || !op->is_before(last_checkpoint_))) {
      return false;
    }
    return is_repeatable(*op);
  }

  bool is_repeatable(const Op& op) const {
    const ir::OpDef& def = op.def();
    if (def.has_effect() || def.runs_graphs() || def.role == ir::Role::kOpaque ||
        ir::is_checkpoint(op)) {
      return false;
    }
    for (size_t i = 0; i < needed_operands(op); ++i) {
      const Op* variable = op.operand(i) ? state_read(op.operand(i)) : nullptr;
      if (variable && written_.count(*ir::slot_of(variable))) return false;
    }
    return true;
  }

  // Returns the number of operands on which the results that a gradient uses depend. The running
  // statistics of a batch norm, its last operands, change with each micro-batch; they only make the
  // next ones.
  static size_t needed_operands(const Op& op) {
    return op.is("batch_norm") ? std::min<size_t>(op.operand_count(), 3) : op.operand_count();
  }

  // Inserts, before `user`, copies of all ops that it needs to run again, in the list's order.
  void copy_producers(Op& user) {
    std::vector<Op*> found, open = {&user};
    std::unordered_set<const Op*> seen;
    while (!open.empty()) {
      const Op* op = open.back();
      open.pop_back();
      for (size_t i = 0; i < (op == &user ? op->operand_count() : needed_operands(*op)); ++i) {
        const Value* value = op->operand(i);
        Op* producer = value && !copies_.count(value) ? value->producer() : nullptr;
        if (!runs_again(producer, user) || kept_.count(value)) continue;
        if (op == &user && draw_mask(*value, user)) continue;
        if (!seen.insert(producer).second) continue;
        found.push_back(producer);
        open.push_back(producer);
      }
    }
    std::sort(found.begin(), found.end(),
              [](const Op* a, const Op* b) { return a != b && a->is_before(b); });
    for (const Op* op : found) copy(*op, user, op->operands());
  }

  // Draws a mask of dropout from its key alone: any operand of the user that has the type of the
  // dropped values stands in for them, so that these are not computed again. Returns false if
  // `value` is not such a mask, or no operand fits.
  bool draw_mask(const Value& value, Op& user) {
    const Op& dropout = *value.producer();
    if (!dropout.is("dropout") || value.index() != 1) return false;
    for (Value* operand : user.operands()) {
      if (!operand || operand->type() != dropout.operand(0)->type()) continue;
      if (runs_again(operand->producer(), user)) continue;
      Op& again = copy(dropout, user, {operand});
      copies_.erase(dropout.result(0));
      copies_[dropout.result(1)] = again.result(1);
      return true;
    }
    return false;
  }

  Op& copy(const Op& op, Op& user, const std::vector<Value*>& from) {
    std::vector<Value*> operands;
    for (Value* value : from) operands.push_back(value ? current(value, user) : nullptr);
    std::vector<ir::Type> types;
    for (size_t i = 0; i < op.result_count(); ++i) types.push_back(op.result(i)->type());
    if (const size_t needed = needed_operands(op); needed < operands.size()) {
      operands.resize(needed);
      for (size_t i = needed; i < types.size(); ++i) types[i] = types[1];  // those of statistics
    }
    Op* again = main_.insert(op.def(), std::move(operands), op.attrs(), std::move(types), &user);
    again->placement = user.placement;
    again->take_origin(op);
    again->forward_id = op.id();
    for (size_t i = 0; i < op.result_count(); ++i) {
      again->result(i)->set_name(op.result(i)->name());
      copies_[op.result(i)] = again->result(i);
    }
    return *again;
  }

  // Returns what the backward stage uses in place of a forward value.
  Value* current(Value* value, const Op& user) const {
    const auto copy = copies_.find(value);
    if (copy != copies_.end()) return copy->second;
    const auto kept = kept_.find(value);
    return kept == kept_.end() || !runs_again(value->producer(), user) ? value : kept->second;
  }

  ir::Graph& main_;
  int last_stage_;  // the backward stage of forward stage 0; 0 without stages
  bool at_once_;    // also where the backward pass follows at once
  const Op* last_checkpoint_ = nullptr;
  std::set<support::Symbol> written_;
  std::unordered_map<const Value*, Value*> copies_;  // look-up only
  std::unordered_map<const Value*, Value*> kept_;    // the checkpoint of a value; look-up only
};

}  // namespace

void recompute_forward(ir::Module& module) {
  const ir::Execution& execution = module.execution();
  const bool several = execution.forward_stages > 1;
  if (execution.training && (several ? execution.recompute : execution.recompute_alone)) {
    Recomputation(module.main(), execution).run();
  }
}

}  // namespace poptorch::partition
