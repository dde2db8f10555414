// An independent replay of what a program allocates and frees: the check on any memory plan.
#pragma once

#include "program/program.hpp"

namespace poptorch::program {

// Bytes of the arena of `ipu` that the instructions touch (the end of the highest tensor). A tensor
// lives from its first write to its last read; one that crosses into a loop lives until the loop
// ends. InternalError when a tensor is read before it is written, when two live tensors overlap
// without being in place of each other, or when an operand is read after it was overwritten.
int64_t replay_arena(const Program& program, int ipu);

}  // namespace poptorch::program
