// Makes wires over a process group of torch.distributed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/transport/wire.hpp"

namespace poptorch::frontend {

// Returns a wire for each rank of the group that was registered as `group_name` (null for this
// rank). Nothing else may send through the group. The wires ignore the group's timeout and wait
// without limit. `connections` is the number of the group's devices, each of which has one
// connection to each rank. The first connection carries only lane 0, if there are others: its short
// messages do not wait for long ones.
std::vector<std::unique_ptr<emulator::Wire>> wires_of(const std::string& group_name,
                                                      int connections);

}  // namespace poptorch::frontend
