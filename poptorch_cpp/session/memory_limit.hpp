// Tells when a program does not fit into the memory of an emulated IPU.
#pragma once

#include <string>

#include "program/program.hpp"

namespace poptorch::session {

// For the first IPU that needs more than it has: which, need and have, the largest tensors by name
// and module path, and what would help. Empty when everything fits.
std::string describe_overflow(const program::Program& program);

// Logs the description as a warning. POPTORCH_MEMORY_LIMIT=error makes it a UserError, =off
// silences it; UserError for another value.
void check_memory_limit(const program::Program& program);

}  // namespace poptorch::session
