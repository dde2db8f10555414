// Defines the options of an engine, and the plain data that it reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "emulator/bound/share.hpp"

namespace poptorch::program {
struct State;
}

namespace poptorch::emulator {

// Returns the initial bytes of a slot, in the form of read_state(). The engine may use them as the
// memory of the slot, and write to them. Null selects the initial value of the program.
using StateBytes = std::function<std::shared_ptr<std::byte>(const program::State&)>;

struct EngineOptions {
  int threads = 0;  // 0: POPTORCH_NUM_THREADS, else the number of cores
  std::optional<uint64_t> random_seed = std::nullopt;  // else the program's
  StateBytes state = {};
  Share share = {};                 // which replicas run here; default: all of them
  bool offline = false;             // never run: only state that is written takes memory
  bool concurrent_machines = true;  // false: one IPU at a time, all threads on its kernels
  // Each may be switched off to look for a fault.
  bool fuse = true;                // element-wise chains and epilogues
  int64_t least_joined = 1 << 17;  // elements of rows that join_rows joins: fewer are in the cache
  bool layouts = true;             // packed weights and channels-last activations
  // Whether collectives begin as soon as their operands are ready; unset: only those over wires.
  std::optional<bool> begin_ahead = std::nullopt;
  bool keep_recomputed = true;  // products that a pipeline recomputes: see keep_values.hpp
  bool reference_only = false;  // the oracle: every op by its reference kernel
};

// Reports the host memory of all replicas, in bytes.
struct HostMemory {
  int64_t state = 0;
  int64_t constants = 0;
  int64_t arena = 0;
  int64_t layout_copies = 0;  // of states and constants, for kernels that want another layout
  int64_t workspace = 0;      // of ops and of workers
  int64_t exchange = 0;       // channels, collectives, stashes
  int64_t streaming = 0;      // remote buffers
};

// Holds the position of the counter-based generator.
struct RandomState {
  uint64_t seed = 0;
  uint64_t micro_batch = 0;  // those that earlier runs have taken
};

}  // namespace poptorch::emulator
