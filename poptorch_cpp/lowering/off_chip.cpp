#include "lowering/off_chip.hpp"

#include <algorithm>

#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "lowering/strategy.hpp"
#include "partition/place.hpp"
#include "program/collective_cost.hpp"
#include "support/flat_map.hpp"

namespace poptorch::lowering {

using ir::Op;
using ir::Value;
using program::Instruction;
using program::TensorId;
using support::Symbol;
using Kind = Instruction::Kind;

namespace {

// Returns nullptr for kinds that are never off the chip.
const ir::TensorLocation* location_of(const std::string& kind,
                                      const ir::TensorLocations& locations) {
  if (kind == "parameter" || kind == "buffer") return &locations.weights;
  if (kind == "optimiser_state") return &locations.optimiser_state;
  return kind == "accumulator" ? &locations.accumulators : nullptr;
}

const std::string* interned(const std::string& slot) { return &Symbol(slot).text(); }

}  // namespace

Instruction started_transfer(Kind kind, const ir::Placement& when) {
  Instruction transfer{.kind = kind};
  transfer.stage = when.stage;
  transfer.phase = when.phase;
  transfer.pass = program::Pass::kTransfer;
  return transfer;
}

OffChip::OffChip(const ir::Module& module, Emitter& emitter) : module_(module), emitter_(emitter) {
  choose();
}

void OffChip::choose() {
  const ir::Execution& execution = module_.execution();
  const bool off_by_default = find_strategy(execution.strategy).state_is_off_chip;
  const int replicas = static_cast<int>(execution.replication_factor);
  const auto cut = static_cast<int>(execution.sharding_replicas);
  support::FlatSet<const std::string*> used, called;  // interned names
  for (const Op* op : module_.main().ops()) {
    for (const Value* value : op->operands()) {
      const Op* variable = value ? partition::state_read(value) : nullptr;
      if (variable)
        (op->def().runs_graphs() ? called : used).insert(interned(*ir::slot_of(variable)));
    }
  }
  for (const auto& graph : module_.graphs()) {
    if (graph.get() == &module_.main()) continue;
    for (const Op* op : graph->ops()) {
      if (const std::string* slot = ir::slot_of(op)) called.insert(interned(*slot));
    }
  }
  for (const auto& slot : module_.states()) {
    const ir::TensorLocation* location = location_of(slot->kind, execution.locations);
    const std::string* name = &slot->name.text();
    if (!location || !used.contains(name) || called.contains(name)) continue;
    const int64_t elements = slot->type.elements();
    const bool on_chip = !location->is_off_chip(elements, off_by_default);
    const bool shared = slot->group_size == 0 || slot->group_size == replicas;
    const int shards = shared && location->is_sharded(elements) ? (cut ? cut : replicas) : 1;
    if (on_chip && shards == 1) continue;
    const bool io_tiles = execution.io_tiles > 0;
    slots_[slot->name] = {io_tiles && location->io_tiles_load,
                          io_tiles && location->io_tiles_store};
    emitter_.move_state(slot->name, on_chip, shards);
  }
}

Symbol OffChip::slot_of(const Value* value) const {
  if (slots_.empty() || !value) return {};
  const Op* variable = partition::state_read(value);
  if (!variable) return {};
  const Symbol slot = *ir::slot_of(variable);
  return slots_.count(slot) ? slot : Symbol();
}

// Returns a transfer's cycles. A load takes the replica's part from Streaming Memory and, with
// `gathers`, the other parts from the other replicas.
int64_t OffChip::cycles(TensorId home, bool gathers) const {
  const program::State& state = emitter_.state_of(home);
  const int64_t part = (state.slot.type.bytes() + state.shards - 1) / state.shards;
  const target::Device& device = emitter_.device();
  int64_t total = 0;
  if (!state.on_chip) {
    total += target::streaming_cycles(device, static_cast<double>(part));
  }
  if (gathers && state.shards > 1) {
    total += program::cycles_of(program::gather_parts(emitter_.program(), state.shards, part));
  }
  return total;
}

void OffChip::transfer(Kind kind, TensorId from, TensorId to, bool io_tiles,
                       const ir::Placement& when) {
  const bool load = kind == Kind::kOffChipLoad;
  Instruction move = started_transfer(kind, when);
  move.inputs = {from};
  move.outputs = {to};
  move.cycles = cycles(load ? from : to, load);
  if (io_tiles) move.attrs.set("io_tiles", true);
  emitter_.emit(emitter_.tensor(from).ipu, std::move(move));
}

void OffChip::load(Symbol slot, int ipu, const ir::Placement& when) {
  if (loaded_.count(slot)) return;
  const TensorId home = emitter_.on_ipu(emitter_.state_tensor(slot, ipu), ipu, nullptr);
  const TensorId here = emitter_.arena_tensor(emitter_.tensor(home).type, slot, ipu);
  transfer(Kind::kOffChipLoad, home, here, slots_.at(slot).load, when);
  loaded_[slot] = {here, ipu};
}

void OffChip::store(Symbol slot, const ir::Placement& when) {
  auto it = loaded_.find(slot);
  if (it == loaded_.end()) return;
  const Loaded loaded = it->second;
  loaded_.erase(it);
  if (!loaded.written) return;
  const TensorId home = emitter_.state_tensor(slot, loaded.ipu);
  emitter_.note_write(home);
  transfer(Kind::kOffChipStore, loaded.tensor, home, slots_.at(slot).store, when);
}

void OffChip::before(const Op& op, Frame& frame) {
  if (!partition::has_place(op)) return;
  for (const Value* value : op.operands()) {
    const Symbol slot = slot_of(value);
    if (slot.empty()) continue;
    load(slot, std::max(op.placement.ipu, 0), op.placement);
    frame.values[value] = loaded_.at(slot).tensor;
  }
}

void OffChip::after(const Op& op, const Frame& frame) {
  if (!partition::has_place(op)) return;
  const auto& memory = op.def().writes;
  for (size_t i = 0; i < memory.size() && i < op.result_count(); ++i) {
    const Symbol slot = slot_of(op.operand(static_cast<size_t>(memory[i])));
    auto it = slot.empty() ? loaded_.end() : loaded_.find(slot);
    if (it != loaded_.end()) it->second.tensor = frame.values.at(op.result(i));
  }
  for (size_t i = 0; i < op.operand_count(); ++i) {
    const Symbol slot = slot_of(op.operand(i));
    auto it = slot.empty() ? loaded_.end() : loaded_.find(slot);
    if (it != loaded_.end()) it->second.written |= op.def().writes_operand(i);
  }
  for (const Value* value : op.operands()) {
    const Symbol slot = slot_of(value);
    if (!slot.empty() && in_section(slot) && last_use_.at(slot) == &op) store(slot, op.placement);
  }
}

void OffChip::begin_section(const std::vector<const Op*>& ops) {
  last_use_.clear();
  for (const Op* op : ops) {
    if (!partition::has_place(*op)) continue;
    for (const Value* value : op->operands()) {
      const Symbol slot = slot_of(value);
      if (!slot.empty()) last_use_[slot] = op;
    }
  }
}

TensorId OffChip::read(const Value* value, TensorId home) {
  const Symbol slot = slot_of(value);
  if (slot.empty()) return home;
  auto it = loaded_.find(slot);
  if (it != loaded_.end()) return it->second.tensor;
  const int ipu = std::max(emitter_.tensor(home).ipu, 0);
  load(slot, ipu, {});
  const TensorId here = loaded_.at(slot).tensor;
  loaded_.erase(slot);
  return here;
}

}  // namespace poptorch::lowering
