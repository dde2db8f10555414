// Defines the code that an engine runs: a flat list of steps per IPU, which all replicas share.
// Steps use a table of addresses in storages; each replica resolves the table once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/bound/code_regions.hpp"
#include "emulator/bound/collective_spec.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {

using program::Base;

struct Step {
  enum class Kind : uint8_t {
    kKernel,
    kCopy,     // buffer 0 → buffer 1
    kSend,     // buffer 0 → channel `index`
    kReceive,  // channel `index` → buffer 0
    kSync,
    kStreamIn,    // stream `index` → buffer 0
    kStreamOut,   // buffer 0 → stream `index`
    kLoad,        // row of remote buffer `index` → buffer 0; buffer 1: the row, else `count`
    kStore,       // buffer 0 → row of remote buffer `index`; row as for kLoad
    kStash,       // buffer 0 → stash `index`
    kRestore,     // stash `index` → buffer 0
    kLoopBegin,   // loop counter `index` becomes `count`; to `target` when that is 0
    kLoopEnd,     // counts down; to `target` while there are rounds left
    kBranch,      // to `target` when buffer 0 (`bytes` long) is zero
    kJump,        // to `target`
    kBegin,       // collective `index`: buffer 0 → buffer 1
    kCollective,  // waits until it has ended
    kEnd,
  };
  Kind kind = Kind::kEnd;
  bool inline_only = true;       // kKernel: too short for the pool
  bool lasts = false;            // so long that the run checks after it whether to continue
  bool has_row = false;          // kLoad, kStore
  bool per_micro_batch = false;  // kLoopEnd: steps the micro-batch counter
  bool is_repeat = false;        // kLoopBegin, kLoopEnd: a loop of the model; `count` rounds
  int32_t rewind = 0;            // kLoopEnd: by how much it sets the micro-batch counter back
  int32_t micro_batch_offset = 0;
  uint32_t buffers = 0;  // first entry in the table
  int32_t index = 0;
  int32_t target = 0;
  int64_t count = 0;
  int64_t bytes = 0;
  uint64_t op_id = 0;
  const BoundKernel* kernel = nullptr;
  uint32_t workspace = 0;  // entry in the table
  int32_t reference = -1;  // of Code::reference_ops, when the kernel is one whose time is measured
  int32_t region = -1;     // of Code::regions; -1: that of the step before
  int32_t prepared = -1;   // counter of the states' version that its phase 0 saw; -1: none
};

// Describes a piece of memory: a state, a constant, or a part of an IPU's arena.
struct Storage {
  Base base = Base::kArena;  // kState, kConstant; everything else is in the arena
  int32_t index = -1;        // of the state or constant
  int ipu = 0;               // of the arena
  ir::Type type = {};        // in row-major form
  Layout layout = {};
  int writers = 0;  // nodes that write it, loops counted once
  int readers = 0;
  bool meets = false;    // operand or result of a collective
  bool resized = false;  // some value sees it with another shape or at an offset: plain only
  int64_t offset = 0;    // in the arena, by plan_arena
  int32_t copy_of =
      -1;  // a copy in another layout of this state or constant, kept up to date outside runs
  bool kept = false;  // shares its part of the arena with nothing: a prepared workspace
  int64_t bytes() const { return type.bytes(); }
  // Whether it may be held in another layout than plain.
  bool takes_any_layout() const { return base == Base::kArena && writers == 1 && !resized; }
};

// Describes an entry of the table. `storage` is one of Code::storages; -1: nullptr.
struct Address {
  int32_t storage = -1;
  int64_t offset = 0;
};

struct IpuCode {
  std::vector<Step> steps;  // ends with kEnd
  std::vector<Address> addresses;
  std::vector<std::string> texts;  // by step, for people to read
  // Pairs steps with the ids of further ops that they run; for people to read, too.
  std::vector<std::pair<int32_t, uint64_t>> fused;
  int loops = 0;
  int prepared = 0;
};

struct Code {
  const program::Program* program = nullptr;  // the code was made from it
  std::vector<Storage> storages;
  std::vector<int64_t> arena_bytes;  // by IPU
  std::vector<IpuCode> ipus;
  std::vector<CollectiveSpec> collectives;
  std::vector<std::shared_ptr<const BoundKernel>> kernels;  // keeps alive what steps point to
  std::vector<std::string> reference_ops;                   // that have a reference kernel
  std::vector<CodeRegion> regions;
  int channels = 0;
  std::vector<int64_t> channel_bytes;  // by channel
  int64_t scratch_bytes = 0;           // of one worker
};

}  // namespace poptorch::emulator
