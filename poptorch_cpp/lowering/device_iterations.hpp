// Changes the device iterations of a lowered program without lowering it again.
#pragma once

#include <cstdint>
#include <optional>

#include "program/program.hpp"

namespace poptorch::lowering {

// Returns the program with `to` device iterations instead of `from`, as lower() makes it for a
// module that differs in nothing else. Returns nullopt for a program whose schedule or transfers
// depend on the number in another way: several IPUs, stages or host buffers of more elements than a
// program may have. `outlines` is that of the module's execution.
std::optional<program::Program> with_device_iterations(const program::Program& program,
                                                       int64_t from, int64_t to, bool outlines);

}  // namespace poptorch::lowering
