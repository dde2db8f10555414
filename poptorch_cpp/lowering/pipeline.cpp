#include "lowering/pipeline.hpp"

#include <algorithm>
#include <set>

#include "ir/effects.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "partition/place.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::lowering {
namespace {

using ir::Op;
using ir::Value;
using program::Instruction;
using program::TensorId;

// Copies blocks. Each phase of the round has separate arena tensors; the first phase that has them
// uses those of the original.
class Cloner {
 public:
  explicit Cloner(Emitter& emitter) : emitter_(emitter) {}

  void begin_phase() { names_.clear(); }

  Block clone(const Block& block, int micro_batch_offset) {
    Block copies = block;
    for (Instruction& instruction : copies) {
      instruction.micro_batch_offset = micro_batch_offset;
      for (TensorId& id : instruction.inputs) id = renamed(id);
      for (TensorId& id : instruction.outputs) id = renamed(id);
      for (Block& inner : instruction.blocks) inner = clone(inner, micro_batch_offset);
    }
    return copies;
  }

 private:
  TensorId renamed(TensorId id) {
    if (id == program::kNoTensor || emitter_.tensor(id).base != program::Base::kArena) return id;
    auto [it, is_new] = names_.emplace(id, id);
    if (is_new && !taken_.insert(id).second) {
      it->second = emitter_.add_tensor(program::Tensor(emitter_.tensor(id)));
    }
    return it->second;
  }

  Emitter& emitter_;
  std::map<TensorId, TensorId> names_;
  std::set<TensorId> taken_;
};

}  // namespace

Crossings::Crossings(const ir::Graph& main) {
  for (const Op* op : main.ops()) {
    if (partition::is_inner(*op)) stages_ = std::max(stages_, op->placement.stage + 1);
  }
  if (stages_ == 1) return;
  carried_.resize(static_cast<size_t>(stages_));
  carried_once_.resize(carried_.size());
  const partition::Regions regions;
  // An input is ready where it is first used.
  for (const Op* op : main.ops()) {
    if (!partition::is_inner(*op)) continue;
    note_results(*op, regions);
    for (size_t i = 0; i < op->operand_count(); ++i) {
      const Value* value = op->operand(i);
      if (!value || value->producer()) continue;
      const int ipu = regions.operand_ipu(*op, i, op->placement.ipu);
      const Readiness here{ipu, op->placement.stage, op->placement.stage};
      auto [it, is_new] = readiness_.emplace(value, here);
      if (!is_new && here.stage < it->second.stage) it->second = here;
    }
  }
  for (const Op* op : main.ops()) {
    if (partition::is_inner(*op)) note_uses(*op);
  }
  check_state(main);
}

const Readiness* Crossings::of(const Value* value) const {
  auto it = readiness_.find(value);
  return it == readiness_.end() ? nullptr : &it->second;
}

void Crossings::note_results(const Op& op, const partition::Regions& regions) {
  for (size_t i = 0; i < op.result_count(); ++i) {
    if (partition::state_read(op.result(i))) continue;
    const int ipu = regions.result_ipu(op, i, op.placement.ipu);
    Readiness ready{ipu, op.placement.stage, op.placement.stage};
    if (op.role() == ir::Role::kCopy) {
      ready.last_use = ++ready.stage;
    }
    readiness_[op.result(i)] = ready;
  }
}

void Crossings::note_uses(const Op& op) {
  const int stage = op.placement.stage;
  for (const Value* value : op.operands()) {
    auto it = value ? readiness_.find(value) : readiness_.end();
    if (it == readiness_.end()) continue;
    Readiness& ready = it->second;
    if (ready.stage > stage) {
      throw support::UserError(support::str("[pipeline] ", partition::describe(op), " of stage ",
                                            stage, " needs a value of stage ", ready.stage,
                                            ". Place it in that stage or a later one."));
    }
    ready.last_use = std::max(ready.last_use, stage);
    if (ready.stage < stage && carried_once_[stage].insert(value).second) {
      carried_[stage].push_back(value);
    }
  }
}

void Crossings::check_state(const ir::Graph& main) const {
  std::map<support::Symbol, const Op*> writers;
  auto slot_of = [](const Op& variable) { return support::Symbol(*ir::slot_of(&variable)); };
  for (const Op* op : main.ops()) {
    if (!partition::is_inner(*op)) continue;
    for (int index : op->def().writes) {
      const Value* value = op->operand(static_cast<size_t>(index));
      if (const Op* variable = value ? partition::state_read(value) : nullptr) {
        writers.emplace(slot_of(*variable), op);
      }
    }
  }
  for (const Op* op : main.ops()) {
    if (!partition::is_inner(*op)) continue;
    for (const Value* value : op->operands()) {
      const Op* variable = value ? partition::state_read(value) : nullptr;
      auto writer = variable ? writers.find(slot_of(*variable)) : writers.end();
      if (writer == writers.end() || writer->second->placement.stage == op->placement.stage) {
        continue;
      }
      throw support::UnsupportedError(
          support::str("[pipeline] ", partition::describe(*op), " of stage ", op->placement.stage,
                       " uses '", writer->first, "', which ", partition::describe(*writer->second),
                       " of stage ", writer->second->placement.stage,
                       " writes: the stages work on different micro-batches at a time. Use and "
                       "write it in one stage, or use poptorch.ShardedExecution."));
    }
  }
}

std::vector<int> emit_round(Emitter& emitter, const std::vector<std::vector<Block>>& bodies,
                            int64_t micro_batches, const Instruction& end_of_cycle) {
  std::vector<int> ahead;
  Cloner cloner(emitter);
  const int64_t cycles = micro_batches + static_cast<int64_t>(bodies.size()) - 1;
  for (size_t ipu = 0; ipu < bodies[0].size(); ++ipu) {
    std::vector<int> stages;
    std::set<int64_t> turns;  // cycles in which a stage begins, or has ended
    for (size_t stage = 0; stage < bodies.size(); ++stage) {
      if (bodies[stage][ipu].empty()) continue;
      stages.push_back(static_cast<int>(stage));
      turns.insert(static_cast<int64_t>(stage));
      turns.insert(static_cast<int64_t>(stage) + micro_batches);
    }
    ahead.push_back(stages.empty() ? 0 : stages.back() - stages.front());
    if (stages.empty()) continue;
    turns.insert({0, cycles});
    for (auto turn = turns.begin(); turn != turns.end() && std::next(turn) != turns.end(); ++turn) {
      Instruction loop{.kind = Instruction::Kind::kLoop};
      loop.count = *std::next(turn) - *turn;
      loop.blocks.emplace_back();
      cloner.begin_phase();
      for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
        if (*turn < *stage || *turn >= *stage + micro_batches) continue;
        loop.per_micro_batch = true;
        Block body = cloner.clone(bodies[*stage][ipu], stages.front() - *stage);
        std::move(body.begin(), body.end(), std::back_inserter(loop.blocks[0]));
      }
      loop.blocks[0].push_back(end_of_cycle);
      emitter.emit(static_cast<int>(ipu), std::move(loop));
    }
  }
  return ahead;
}

}  // namespace poptorch::lowering
