// Wires over a process group of torch.distributed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/transport/wire.hpp"

namespace poptorch::frontend {

// One for each rank of the group that was registered as `group_name` (null for this one), which
// nobody else sends through. They wait for ever, whatever the group was told. `connections`: the
// group's devices, each of which has one to each rank. The first is the first lane's alone: what is
// short does not wait behind what is long.
std::vector<std::unique_ptr<emulator::Wire>> wires_of(const std::string& group_name,
                                                      int connections);

}  // namespace poptorch::frontend
