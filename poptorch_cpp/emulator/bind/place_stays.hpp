// Gives memory to values that live for a part of a program.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace poptorch::emulator {

// Bytes that are needed from one step of a program to another, both included.
struct Stay {
  int64_t begin, end, bytes;
};

struct Placement {
  std::vector<int64_t> offsets;  // of the stays, in their order
  int64_t bytes = 0;             // of the whole memory
};

// Places stays so that those which meet in time do not overlap in memory. `bytes` are multiples of
// the alignment. The time is almost linear in the number of stays.
Placement place_stays(std::span<const Stay> stays);

}  // namespace poptorch::emulator
