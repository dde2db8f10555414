// The program recomputes activations because an IPU must; its costs stay in the program. The host
// has memory for the most expensive values, and computes them only once.
#pragma once

#include <optional>

#include "program/program.hpp"

namespace poptorch::emulator {

// Replaces matrix products and convolutions that a backward stage recomputes by stashes of the
// forward stage's results, and removes what is then unused. Returns nullopt if there are none.
// Value numbering, also through the program's stashes, finds equal values, so results are
// bit-identical.
std::optional<program::Program> keep_recomputed(const program::Program& program,
                                                const ir::Registry& registry);

}  // namespace poptorch::emulator
