// Tells when a program does not fit into the memory of an emulated IPU, or into Streaming Memory.
#pragma once

#include <string>

#include "program/program.hpp"

namespace poptorch::account {

// For the first IPU that needs more than it has: which, its stages, need and have, the ten largest
// tensors by name and module path, and what would help (remedies.hpp). Likewise for what a replica
// keeps in Streaming Memory. Empty when everything fits.
std::string describe_overflow(const program::Program& program);

// Logs the description as a warning (`asked` is "warn"), throws it as a UserError ("error") or says
// nothing ("off"). An empty `asked` is POPTORCH_MEMORY_LIMIT, else "warn"; UserError for another
// value.
void check_memory_limit(const program::Program& program, const std::string& asked);

}  // namespace poptorch::account
