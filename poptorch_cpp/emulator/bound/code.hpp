// Defines the code that an engine runs: a flat list of steps per IPU, which all replicas share.
// Steps use a table of values; each replica resolves its addresses once. Of the program, a run
// needs the declarations (states, constants, streams, remote buffers, stashes), and the places of
// ops for messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/bound/code_regions.hpp"
#include "emulator/bound/collective_spec.hpp"
#include "emulator/bound/kernel_spec.hpp"
#include "emulator/bound/values.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

struct Step {
  enum class Kind : uint8_t {
    kKernel,   // kernel `index`
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

struct IpuCode {
  std::vector<Step> steps = {};     // ends with kEnd
  std::vector<ValueId> table = {};  // by entry: the steps' arguments; kNoValue: nullptr
  int64_t arena_bytes = 0;
  int loops = 0;
  int prepared = 0;

  // Returns the values in the table of a step, without its kernel's workspace.
  std::span<const ValueId> arguments(size_t step) const;
};

struct Code : ValueTable {
  const program::Program* program = nullptr;  // the code was made from it
  const ir::Registry* registry = nullptr;     // of the program's ops
  support::Table<int, IpuCode> ipus = {};
  Table<int32_t, Kernel> kernels = {};
  Table<int32_t, CollectiveSpec> collectives = {};
  std::vector<std::string> reference_ops = {};  // that have a reference kernel
  support::Table<int32_t, CodeRegion> regions = {};
  std::vector<int64_t> channel_bytes = {};  // by channel
  int64_t scratch_bytes = 0;                // of one worker
  int threads = 1;                          // for which kernels are made
  bool reference_only = false;              // see EngineOptions
};

// Returns the bytes that a step which moves data, or tests a condition, reads or writes.
int64_t moved_bytes(const Code& code, const IpuCode& ipu, size_t step);
// Sets what follows from a step's bound kernel. `op` is the op's name, empty for chains and
// reorders.
void set_kernel(Code& code, Step& step, const std::string& op);
// Sets what follows from an IPU's steps as a whole.
void finish_steps(const Code& code, IpuCode& ipu);

// Throws InternalError `[verify] step 3 of IPU 0 ...` unless storages, values and arguments lie in
// the memory that they name, what is read was written and not overwritten, jumps are well nested,
// counters are in range, both ends of channels and collectives match, and kernels fit their ops.
void verify(const Code& code);

}  // namespace poptorch::emulator
