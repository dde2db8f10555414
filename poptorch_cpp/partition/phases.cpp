// Numbers the phases in one walk over the ops in their order.
#include "partition/phases.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/effects.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "partition/place.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/symbol.hpp"

namespace poptorch::partition {
namespace {

using ir::Op;
using ir::Value;
using support::str;
using support::UserError;

class Phases {
 public:
  Phases(ir::Module& module, Parity parity)
      : main_(module.main()),
        execution_(module.execution()),
        parity_(parity),
        step_(phase_step(execution_.liveness)) {
    for (const Op* op : main_.ops()) count_ = std::max(count_, op->placement.phase + 1);
  }

  int last_forward() const { return (count_ - 1) * step_; }

  void run() {
    for (Op* op : main_.ops()) {
      if (!has_place(*op)) continue;
      if (is_outer(*op)) {
        op->placement.phase = -1;
        continue;
      }
      const int stated = std::max(op->placement.phase, 0);
      if (is_backward(*op)) backward_.insert(op);
      const bool forward = backward_.count(op) == 0;
      if (forward) check_forward(*op, stated);
      stated_[op] = stated;
      op->placement.phase = std::max(number(stated, forward), earliest(*op));
      note_accesses(*op);
    }
  }

 private:
  bool is_backward(const Op& op) const {
    if (op.forward_id != 0) return true;
    const auto& operands = op.operands();
    return std::any_of(operands.begin(), operands.end(), [&](const Value* value) {
      return value && value->producer() && backward_.count(value->producer());
    });
  }

  int number(int stated, bool forward) const {
    if (forward) return stated * step_;
    return ((execution_.separate_backward_phase ? 2 * count_ : 2 * (count_ - 1)) - stated) * step_;
  }

  // Identifies the memory of a value: by its slot's name for state, otherwise by the root value.
  static const void* memory_of(const Value* value) {
    if (const Op* variable = state_read(value)) {
      return &support::Symbol(*ir::slot_of(variable)).text();  // interned
    }
    return ir::memory_root(value);
  }

  // Returns the first phase in which all that the op reads exists, and all that it overwrites has
  // been read.
  int earliest(const Op& op) {
    int phase = 0;
    for (size_t i = 0; i < op.operand_count(); ++i) {
      const Value* value = op.operand(i);
      if (!value) continue;
      if (value->producer() && has_place(*value->producer())) {
        phase = std::max(phase, value->producer()->placement.phase);
      }
      auto known = accesses_.find(memory_of(value));
      if (known == accesses_.end()) continue;
      phase = std::max(phase, known->second.written);
      if (op.def().writes_operand(i)) phase = std::max(phase, known->second.read);
    }
    return phase;
  }

  void note_accesses(const Op& op) {
    for (size_t i = 0; i < op.operand_count(); ++i) {
      const Value* value = op.operand(i);
      if (!value) continue;
      Accesses& known = accesses_[memory_of(value)];
      int& last = op.def().writes_operand(i) ? known.written : known.read;
      last = std::max(last, op.placement.phase);
    }
  }

  void check_forward(const Op& op, int stated) const {
    if (op.role() == ir::Role::kCopy) return;
    for (const Value* value : op.operands()) {
      const Op* producer = value ? value->producer() : nullptr;
      while (producer && producer->role() == ir::Role::kCopy) {
        producer = producer->operand(0)->producer();
      }
      auto it = producer ? stated_.find(producer) : stated_.end();
      if (it == stated_.end() || backward_.count(producer) || it->second <= stated) continue;
      throw UserError(str("[phased] ", describe(op), " is in phase ", stated,
                          " but uses the result of ", describe(*producer), " of phase ", it->second,
                          ". Phases run in their order; put its block into a later phase."));
    }
    const int ipu = op.placement.ipu;
    if (op.placement.phase < 0) return;  // not in a block
    if (parity_ == Parity::kAsIpu && stated % 2 != ipu % 2) {
      const char* parity = stated % 2 ? "odd" : "even";
      throw UserError(str("[phased] ", describe(op), " of phase ", stated, " is on IPU ", ipu,
                          ". With ParallelPhasedExecution, ", parity, " phases run on ", parity,
                          " IPUs: set others by .ipus() or .ipu(), or use "
                          "poptorch.SerialPhasedExecution."));
    }
  }

  struct Accesses {
    int read = 0, written = 0;  // the last phases that do
  };

  ir::Graph& main_;
  const ir::Execution& execution_;
  Parity parity_;
  int step_;
  int count_ = 1;                                       // of forward phases
  std::unordered_map<const Op*, int> stated_;           // look-up only
  std::unordered_set<const Op*> backward_;              // look-up only
  std::unordered_map<const void*, Accesses> accesses_;  // look-up only
};

}  // namespace

int phase_step(ir::Liveness liveness) {
  constexpr int kSteps[] = {1, 1, 2, 4};  // by Liveness
  return kSteps[static_cast<size_t>(liveness)];
}

void assign_phases(ir::Module& module, Parity parity) {
  Phases phases(module, parity);
  phases.run();
  module.execution().last_forward_phase = phases.last_forward();
}

}  // namespace poptorch::partition
