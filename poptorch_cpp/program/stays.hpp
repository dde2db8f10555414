// The lifetimes of the values that a program writes to its arenas; checks of memory plans and
// memory reports use them.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace poptorch::program {

// Values that are in place of each other, from the first write to the last use of any; or the
// temporary data of an instruction.
struct Allocation {
  TensorId id = kNoTensor;     // of their tensors, the one with the highest end; none: temporary
  int64_t begin = 0, end = 0;  // positions, both included
  int64_t offset = 0, bytes = 0;
};

struct Stays {
  std::vector<Allocation> allocations;  // by begin; without empty ones
  int64_t peak = 0;                     // the end of the highest of them, in bytes
  // Positions count, from 1, an IPU's instructions depth first and the ends of its loops.
  // `instructions` maps a position to the number of its instruction, from 0; the end of a loop maps
  // to the last one in it.
  std::vector<int32_t> instructions = {-1};
};

// Returns the stays in the arena of `ipu`. A tensor holds its memory from each write to the last
// read of the written value; a value that a loop reads before it writes is held for the whole loop.
// Throws InternalError when a tensor is read before it is written, or an operand after it was
// overwritten. Also throws it when the address of a tensor differs from that of the tensor it is in
// place of.
Stays stays_of(const Program& program, int ipu);

// Returns where a tensor of an arena ends, in bytes from the arena's begin.
int64_t end_of(const Tensor& tensor);

}  // namespace poptorch::program
