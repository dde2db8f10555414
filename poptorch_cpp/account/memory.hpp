// Rows of what a program holds: always, and in its arenas.
#pragma once

#include "account/inspection.hpp"
#include "account/instructions.hpp"

namespace poptorch::account {

// Fills always, allocations and ipus.
void add_memory(const program::Program& program, const Instructions& instructions, Strings& strings,
                Inspection& made);

// The path of the module that a slot of state is of; nothing for a name without one.
std::string_view module_of_state(const ir::StateSlot& slot);

}  // namespace poptorch::account
