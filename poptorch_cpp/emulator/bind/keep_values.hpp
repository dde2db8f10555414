// Recomputation is the emulated machine's affair: what it costs an IPU is in the program. The host
// has memory for the dearest values, and computes them once.
#pragma once

#include <optional>

#include "program/program.hpp"

namespace poptorch::emulator {

// The program with matrix products and convolutions that a backward stage computes again replaced
// by stashes of the forward stage's results, and without what is then unused; nothing if there are
// none. Equal values are found by value numbering, through the program's own stashes, so no bit
// changes.
std::optional<program::Program> keep_recomputed(const program::Program& program,
                                                const ir::Registry& registry);

}  // namespace poptorch::emulator
