// Computations that PopTorch's own ops share between device and host.
#pragma once

#include "ir/attr.hpp"

namespace poptorch::frontend {

// Returns how many points fps chooses of each group between two borders. Computes in float32, as
// torch_cluster does, where 0.07 of 100 points are 7.
ir::Ints chosen_counts(const ir::Ints& borders, double ratio);

}  // namespace poptorch::frontend
