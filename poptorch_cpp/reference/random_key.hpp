// The inputs of random numbers, beside the index of the element: the same key gives the same
// numbers wherever and whenever the op runs.
#pragma once

#include <cstdint>

namespace poptorch::reference {

struct RandomKey {
  uint64_t seed = 0;
  uint64_t op_id = 0;
  uint32_t replica = 0;
  uint64_t micro_batch = 0;
  uint64_t round = 0;  // of the repeats around the op
};

}  // namespace poptorch::reference
