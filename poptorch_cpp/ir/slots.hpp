// The declarations of a module outside its graphs: slots of state, host streams and remote buffers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/attr.hpp"
#include "ir/type.hpp"

namespace poptorch::ir {

// A named slot of device state: a weight, optimiser state, accumulator, hyper-parameter, random
// generator state. The session owns its bytes; the IR only names it (`variable()
// {name="fc.weight"}`).
struct StateSlot {
  Symbol name;
  Type type;  // on one replica
  // One of "parameter", "buffer", "optimiser_state", "accumulator", "hyper_parameter", "rng".
  std::string kind = "parameter";
  // Replicas that share one value: groups of `group_size` replicas, `group_stride` apart.
  // group_size 0: all replicas share one value.
  int group_size = 0;
  int group_stride = 1;
  // The value of a slot before its first write; absent: zeros.
  std::optional<Literal> initial = std::nullopt;
};

struct HostStream {
  Symbol name;
  Type type;  // of one transfer
  bool to_device = true;
};

// Rows of Streaming Memory: `entries` tensors of one type.
struct RemoteBuffer {
  Symbol name;
  Type type;
  int64_t entries = 1;
};

// Returns why the slot or stream cannot be declared, as a sentence; empty if it can.
std::string defect_of(const StateSlot& slot);
std::string defect_of(const HostStream& stream);
std::string defect_of(const RemoteBuffer& buffer);

}  // namespace poptorch::ir
