// State in Streaming Memory or split over the replicas: decides which slots are, and loads and
// stores them around their uses.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "ir/module.hpp"
#include "lowering/emitter.hpp"
#include "lowering/op_lowering.hpp"

namespace poptorch::lowering {

// A loaded slot is an arena tensor, on which ops work until it is stored. Inside a section, slots
// are loaded before their first use and stored after their last; a schedule may load and store
// them at other times by itself.
class OffChip {
 public:
  // Puts parameters, buffers, optimiser state and accumulators off the chip as the locations say,
  // or else the strategy. Shards those that all replicas share, as the locations say. Leaves out
  // state that called graphs use.
  OffChip(const ir::Module& module, Emitter& emitter);

  // Returns the slot whose memory `value` is, if that is off the chip; else an empty name.
  support::Symbol slot_of(const ir::Value* value) const;
  // Returns whether the slot, which is off the chip, is loaded through IO tiles.
  bool loads_through_io_tiles(support::Symbol slot) const { return slots_.at(slot).load; }

  void load(support::Symbol slot, int ipu, const ir::Placement& when);
  // Stores the slot if it has been written since it was loaded; it is no longer on the chip.
  void store(support::Symbol slot, const ir::Placement& when);

  // Is called before an op: puts the slots that it uses into `frame`, and loads missing ones.
  void before(const ir::Op& op, Frame& frame);
  // Is called after an op: notes what it wrote, and stores slots that the section no longer uses.
  void after(const ir::Op& op, const Frame& frame);
  // Sets the ops that run next, up to the next begin_section().
  void begin_section(const std::vector<const ir::Op*>& ops);
  // Returns the tensor of a value that is only read, on its IPU; loads it if it is missing.
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

// Returns a transfer to or from Streaming Memory, with its kind, place and pass set.
program::Instruction started_transfer(program::Instruction::Kind kind, const ir::Placement& when);

}  // namespace poptorch::lowering
