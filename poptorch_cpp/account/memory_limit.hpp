// Reports a program that does not fit into the memory of an emulated IPU or into Streaming Memory.
#pragma once

#include <string>

#include "program/program.hpp"

namespace poptorch::account {

// Describes the first IPU that needs more memory than it has: its stages, need and capacity, its
// ten largest tensors by name and module path, and remedies (remedies.hpp). Describes an overflow
// of a replica's Streaming Memory in the same way. Returns an empty text if everything fits.
std::string describe_overflow(const program::Program& program);

// Logs the description as a warning (`asked` is "warn"), throws it as a UserError ("error") or
// ignores it ("off"). An empty `asked` stands for POPTORCH_MEMORY_LIMIT, else "warn". Any other
// value is a UserError.
void check_memory_limit(const program::Program& program, const std::string& asked);

}  // namespace poptorch::account
