// How a model that is spread over several IPUs runs on them.
#pragma once

#include <cstdint>

namespace poptorch::transforms {

enum class Strategy : uint8_t {
  kPipelined,       // stages work on different micro-batches at one time
  kSharded,         // one micro-batch at a time, one IPU after the other
  kSerialPhased,    // one phase after the other, what a phase does not need off the chip
  kParallelPhased,  // likewise, even phases on even IPUs and odd ones on odd IPUs
};

inline bool is_phased(Strategy strategy) {
  return strategy == Strategy::kSerialPhased || strategy == Strategy::kParallelPhased;
}

// Which values wait off the chip for a later phase. The numbers are those of poptorch.Liveness.
enum class Liveness : uint8_t {
  kAlwaysLive,                // none
  kOffChipAfterFwd,           // those for the backward pass; their transfers share the neighbours'
                              // phases
  kOffChipAfterFwdNoOverlap,  // likewise; transfers have phases of their own
  kOffChipAfterEachPhase,     // all
};

// Phased execution, beyond what blocks say.
struct Phasing {
  Liveness liveness = Liveness::kAlwaysLive;
  bool separate_backward = false;  // the last forward phase is not the first backward phase
  int last_forward = 0;            // the number of the last forward phase: assign_phases finds it
};

// Replicas that share one value of a weight: `size` of them, `stride` apart; 0: all of them.
struct ReplicaGroup {
  int size = 0;
  int stride = 1;
  bool all_replicas = false;  // the host has a value of each replica, not of each group

  int held_size() const { return all_replicas ? 1 : size; }  // replicas a value of the host's
};

}  // namespace poptorch::transforms
