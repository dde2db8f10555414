// Reports a program that does not fit into the memory of an emulated IPU or into Streaming Memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace poptorch::program {
struct Program;
}

namespace poptorch::account {

// Describes the first IPU that needs more memory than it has: its stages, need and capacity, its
// ten largest tensors by name and module path, and remedies (remedies.hpp). Describes an overflow
// of a replica's Streaming Memory in the same way. Returns an empty text if everything fits.
std::string describe_overflow(const program::Program& program);

// Selects what happens to the description: it is logged as a warning, thrown as a UserError or not
// made. kUnset stands for POPTORCH_MEMORY_LIMIT, else kWarn.
enum class MemoryLimit : uint8_t { kUnset, kWarn, kError, kOff };

// Returns their words, in order: an empty one, then those of POPTORCH_MEMORY_LIMIT.
const std::vector<std::string>& memory_limit_words();
const std::string& word(MemoryLimit limit);
// UserError for another word.
MemoryLimit memory_limit_of(const std::string& word);

void check_memory_limit(const program::Program& program, MemoryLimit asked);

}  // namespace poptorch::account
