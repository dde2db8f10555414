// Checks the user's blocks before anything is placed.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

// Raises UserError for a block of main whose ops neither reach an output nor have an effect. Needs
// the traced IR: later stages have lost dead ops. A block without ops does not count.
void refuse_dead_blocks(const ir::Module& module);

}  // namespace poptorch::partition
