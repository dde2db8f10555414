// What the user's blocks must be, before anything is placed.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

// UserError for a block of main whose ops neither reach an output nor have an effect. Needs
// the traced form: later ones have lost what is dead. A block that made no ops is none.
void refuse_dead_blocks(const ir::Module& module);

}  // namespace poptorch::partition
