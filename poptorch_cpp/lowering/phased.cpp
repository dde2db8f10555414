// The phased schedule. In each phase, values that the previous phase left go to Streaming Memory,
// then the ops run, then values for the next phase are loaded. Through IO tiles they are
// loaded while the ops run. Phase numbers leave gaps where transfers have separate phases:
// partition/phases.hpp.
#include <map>
#include <set>
#include <unordered_set>

#include "ir/effects.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "lowering/schedules.hpp"
#include "partition/phases.hpp"
#include "partition/place.hpp"
#include "support/strings.hpp"

namespace poptorch::lowering {
namespace {

using ir::Op;
using ir::Value;
using program::Instruction;
using support::Symbol;
using Kind = Instruction::Kind;

// Lists the phases in which something is used, joined where it stays on the chip. Between two stays
// it is away for at least one phase.
using Stays = std::vector<std::pair<int, int>>;

Stays stays_of(const std::set<int>& phases) {
  Stays stays;
  for (int phase : phases) {
    if (!stays.empty() && phase - stays.back().second < 2) {
      stays.back().second = phase;
    } else {
      stays.emplace_back(phase, phase);
    }
  }
  return stays;
}

// Lists what a phase moves, in the order in which ops need it.
struct Transfers {
  std::vector<std::pair<Symbol, int>> states;  // with the IPU
  std::vector<const Value*> values;
};

struct Phase {
  std::vector<const Op*> ops;
  Transfers stores, loads;
};

class Phased {
 public:
  explicit Phased(MainLowering& main)
      : main_(main), emitter_(main.emitter()), execution_(main.execution()) {
    if (execution_.io_tiles > 0) {
      io_tiles_.load = execution_.locations.activations.io_tiles_load;
      io_tiles_.store = execution_.locations.activations.io_tiles_store;
    }
    for (const Op* op : main_.order()) {
      if (partition::is_outer(*op)) continue;
      if (!partition::has_place(*op)) {
        reads_.push_back(op);
        continue;
      }
      phases_[op->placement.phase].ops.push_back(op);
      note(*op);
    }
    plan_states();
    if (execution_.liveness != ir::Liveness::kAlwaysLive) plan_values();
  }

  void run() {
    for (const Op* op : reads_) main_.ops().lower(*op, main_.frame());
    main_.off_chip().begin_section({});
    for (auto& [number, phase] : phases_) lower_phase(number, phase);
    main_.store_late_outputs(false);
  }

 private:
  struct Life {
    int ipu = 0;
    std::set<int> phases = {};
  };

  void note(const Op& op) {
    const int phase = op.placement.phase;
    for (size_t i = 0; i < op.operand_count(); ++i) {
      const Value* value = op.operand(i);
      if (!value) continue;
      const Symbol slot = main_.off_chip().slot_of(value);
      if (!slot.empty()) {
        Life& life = states_[slot];
        if (life.phases.empty()) slots_.push_back(slot);
        life.ipu = op.placement.ipu;
        life.phases.insert(phase);
      } else if (!partition::state_read(value)) {
        Life& life = lives_[value];
        if (life.phases.empty()) {
          if (value->producer()) continue;  // a constant
          values_.push_back(value);
        }
        if (!value->producer()) life.ipu = op.placement.ipu;
        life.phases.insert(phase);
      }
      if (ir::memory_root(value) != value) shared_.insert(ir::memory_root(value));
    }
    for (int index : op.def().writes) {
      const Value* value = op.operand(static_cast<size_t>(index));
      if (value) shared_.insert(ir::memory_root(value));
    }
    for (size_t i = 0; i < op.result_count(); ++i) {
      Life& life = lives_[op.result(i)];
      life.ipu = ir::target_ipu(op).value_or(op.placement.ipu);
      life.phases.insert(phase);
      values_.push_back(op.result(i));
    }
  }

  void plan_states() {
    for (const Symbol slot : slots_) {
      const Life& life = states_.at(slot);
      for (const auto& [begin, end] : stays_of(life.phases)) {
        phases_[begin - 1].loads.states.emplace_back(slot, life.ipu);
        phases_[end + 1].stores.states.emplace_back(slot, life.ipu);
      }
    }
  }

  void plan_values() {
    const ir::TensorLocation& location = execution_.locations.activations;
    for (const Value* value : values_) {
      // A value that is written in place, or shares its memory, stays where it is.
      if (shared_.count(value) || ir::memory_root(value) != value) continue;
      if (!location.is_off_chip(value->type().elements(), true)) continue;
      const Stays stays = away_from_chip(lives_.at(value).phases);
      if (stays.size() < 2) continue;
      phases_[stays[0].second + 1].stores.values.push_back(value);
      for (size_t i = 1; i < stays.size(); ++i) {
        phases_[stays[i].first - 1].loads.values.push_back(value);
      }
    }
  }

  // Returns the stays of a value. It leaves the chip only after the forward pass, unless every
  // phase sends everything away.
  Stays away_from_chip(const std::set<int>& phases) const {
    if (execution_.liveness == ir::Liveness::kOffChipAfterEachPhase) return stays_of(phases);
    const auto backward = phases.upper_bound(static_cast<int>(execution_.last_forward_phase));
    if (backward == phases.begin() || backward == phases.end()) return {};
    const Stays stays = {{*phases.begin(), *std::prev(backward)}, {*backward, *phases.rbegin()}};
    return stays[1].first - stays[0].second < 2 ? Stays() : stays;
  }

  void lower_phase(int number, const Phase& phase) {
    const ir::Placement when{.phase = number};
    const int64_t before = emitter_.emitted();
    for (const auto& [slot, ipu] : phase.stores.states) main_.off_chip().store(slot, when);
    for (const Value* value : phase.stores.values) store(*value, number);
    load(phase, when, true);
    for (const Op* op : phase.ops) main_.lower_op(*op);
    for (const Value* output : main_.graph().outputs()) {
      // Only inputs are stored here; results are stored as they are made.
      auto life = lives_.find(output);
      const bool input = life != lives_.end() && !output->producer();
      if (input && *life->second.phases.begin() == number) main_.store_output(output);
    }
    load(phase, when, false);
    if (emitter_.emitted() != before) emitter_.meet();
  }

  // Loads what comes through IO tiles, while the ops run, or the rest, after them.
  void load(const Phase& phase, const ir::Placement& when, bool io_tiles) {
    for (const auto& [slot, ipu] : phase.loads.states) {
      if (main_.off_chip().loads_through_io_tiles(slot) != io_tiles) continue;
      main_.off_chip().load(slot, ipu, when);
    }
    if (io_tiles_.load != io_tiles) return;
    for (const Value* value : phase.loads.values) load_value(*value, when.phase);
  }

  void store(const Value& value, int phase) {
    auto& buffers = emitter_.program().remote_buffers;
    const int ipu = lives_.at(&value).ipu;
    const auto id = emitter_.on_ipu(main_.frame().values.at(&value), ipu, nullptr);
    buffer_of_[&value] = static_cast<int>(buffers.size());
    const std::string name = emitter_.tensor(id).name.text();
    buffers.push_back(
        {.name = support::str("activation", buffers.size(), ".", name), .type = value.type()});
    Instruction store = transfer(value, Kind::kOffChipStore, phase);
    store.inputs = {id};
    emitter_.emit(ipu, std::move(store));
  }

  void load_value(const Value& value, int phase) {
    const int ipu = lives_.at(&value).ipu;
    auto& now = main_.frame().values[&value];
    now = emitter_.arena_tensor(value.type(), emitter_.tensor(now).name, ipu);
    Instruction load = transfer(value, Kind::kOffChipLoad, phase);
    load.outputs = {now};
    emitter_.emit(ipu, std::move(load));
  }

  Instruction transfer(const Value& value, Kind kind, int phase) {
    Instruction move = started_transfer(kind, {.phase = phase});
    move.attrs.set("row", int64_t{0});
    move.channel = buffer_of_.at(&value);
    if (kind == Kind::kOffChipLoad ? io_tiles_.load : io_tiles_.store) {
      move.attrs.set("io_tiles", true);
    }
    move.cycles = emitter_.streaming_cycles(main_.frame().values.at(&value));
    return move;
  }

  MainLowering& main_;
  Emitter& emitter_;
  const ir::Execution& execution_;
  struct {
    bool load = false, store = false;
  } io_tiles_;                    // of activations
  std::vector<const Op*> reads_;  // constants and reads of state
  std::map<int, Phase> phases_;
  std::vector<Symbol> slots_;  // off the chip, in the order of use
  std::map<Symbol, Life> states_;
  std::vector<const Value*> values_;              // inputs and results, in the order of use
  std::unordered_map<const Value*, Life> lives_;  // look-up only
  std::unordered_set<const Value*> shared_;       // memory that others write or see; look-up only
  std::unordered_map<const Value*, int> buffer_of_;  // in Streaming Memory; look-up only
};

}  // namespace

void schedule_phased(MainLowering& main) {
  loop_micro_batches(main, [&main] { Phased(main).run(); });
}

}  // namespace poptorch::lowering
