// State that lives in Streaming Memory, or split over the replicas: which slots do, and their loads
// and stores around uses.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "ir/module.hpp"
#include "lowering/emitter.hpp"
#include "lowering/op_lowering.hpp"

namespace poptorch::lowering {

// A loaded slot is an arena tensor, on which ops work until it is stored. Inside a section, slots
// are loaded before their first use and stored behind their last; a schedule may load and store
// them at other times by itself.
class OffChip {
 public:
  // Off the chip are parameters and buffers, optimiser state and accumulators as the
  // locations say, or the strategy, but nothing that called graphs use. In shards is what all
  // replicas share, likewise.
  OffChip(const ir::Module& module, Emitter& emitter);

  // The slot whose memory `value` is, when that is off the chip; else an empty name.
  support::Symbol slot_of(const ir::Value* value) const;
  // Whether the slot, which is off the chip, is loaded through IO tiles.
  bool loads_through_io_tiles(support::Symbol slot) const { return slots_.at(slot).load; }

  void load(support::Symbol slot, int ipu, const ir::Placement& when);
  // Stores the slot if it has been written since it was loaded; it is no longer on the chip.
  void store(support::Symbol slot, const ir::Placement& when);

  // Around an op: puts what it uses into `frame`, loading what is not there...
  void before(const ir::Op& op, Frame& frame);
  // ...and notes what it wrote, storing what the section does not use again.
  void after(const ir::Op& op, const Frame& frame);
  // The ops that run next, up to the next begin_section().
  void begin_section(const std::vector<const ir::Op*>& ops);
  // Likewise for a value that is only read, on its IPU: what it is there.
  program::TensorId read(const ir::Value* value, program::TensorId home);

 private:
  struct Loaded {
    program::TensorId tensor;
    int ipu;
    bool written = false;
  };

  struct IoTiles {
    bool load, store;
  };

  void choose();
  void transfer(program::Instruction::Kind kind, program::TensorId from, program::TensorId to,
                bool io_tiles, const ir::Placement& when);
  int64_t cycles(program::TensorId home, bool gathers) const;
  bool in_section(support::Symbol slot) const { return last_use_.count(slot) != 0; }

  const ir::Module& module_;
  Emitter& emitter_;
  std::map<support::Symbol, IoTiles> slots_;  // off the chip
  std::map<support::Symbol, Loaded> loaded_;
  std::map<support::Symbol, const ir::Op*> last_use_;  // in the section
};

// What a transfer to or from Streaming Memory looks like.
program::Instruction started_transfer(program::Instruction::Kind kind, const ir::Placement& when);

}  // namespace poptorch::lowering
