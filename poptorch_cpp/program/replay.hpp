// An independent replay of a program's allocations and frees: the check on any memory plan.
#pragma once

#include "program/program.hpp"

namespace poptorch::program {

// Returns the bytes of the arena of `ipu` that the instructions touch: the end of the highest
// tensor or temporary data. A tensor holds its memory from each write to the last read of the
// written value; a value that a loop reads before it writes is held for the whole loop. Throws
// InternalError when a tensor is read before it is written, or an operand after it was overwritten.
// Also throws it when two live tensors overlap without being in place of each other, or temporary
// data overlaps a tensor.
int64_t replay_arena(const Program& program, int ipu);

}  // namespace poptorch::program
