// An independent replay of what a program allocates and frees: the check on any memory plan.
#pragma once

#include "program/program.hpp"

namespace poptorch::program {

// Bytes of the arena of `ipu` that the instructions touch (the end of the highest tensor). A tensor
// holds its memory from each write to the last read of what was written; what a loop reads before
// it writes is held for the whole loop. InternalError when a tensor is read before it is written,
// when two live tensors overlap without being in place of each other, or when an operand is read
// after it was overwritten.
int64_t replay_arena(const Program& program, int ipu);

}  // namespace poptorch::program
