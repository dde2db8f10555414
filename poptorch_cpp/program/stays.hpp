// How long what a program writes stays in its arenas: what the check on memory plans and reports of
// memory go by.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace poptorch::program {

// Values that are in place of each other, from the first write to the last use of any.
struct Allocation {
  TensorId id = kNoTensor;     // of their tensors, the one that reaches the farthest
  int64_t begin = 0, end = 0;  // positions, both included
};

struct Stays {
  std::vector<Allocation> allocations;  // by begin; none of no bytes
  int64_t peak = 0;                     // the end of the highest tensor, in bytes
  // Positions count, from 1, an IPU's instructions depth first and the ends of its loops. By
  // position: the number of the instruction, from 0; at the end of a loop, of the last one in it.
  std::vector<int32_t> instructions = {-1};
};

// A tensor holds its memory from each write to the last read of what was written; what a loop reads
// before it writes is held for the whole loop. InternalError when a tensor is read before it is
// written, when it does not lie where what it is in place of lies, or when an operand is read after
// it was overwritten.
Stays stays_of(const Program& program, int ipu);

// Where a tensor of an arena ends, in bytes from the arena's begin.
int64_t end_of(const Tensor& tensor);

}  // namespace poptorch::program
