// Builds the rows of a program's memory: permanent allocations and arenas.
#pragma once

#include "account/inspection.hpp"
#include "account/instructions.hpp"

namespace poptorch::account {

// Fills always, allocations and ipus.
void add_memory(const program::Program& program, const Instructions& instructions, Strings& strings,
                Inspection& made);

// Returns the path of the module that a state slot belongs to; empty for a name without one.
std::string_view module_of_state(const ir::StateSlot& slot);

}  // namespace poptorch::account
