// Finds how many IPUs a replica has: all up to the highest one that it uses.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

struct HighestIpu {
  int number = 0;
  const ir::Op* user = nullptr;  // an op there, where the number is above 0
};

// Considers main and the graphs that it calls: IPUs on which ops run, and targets of unused copies.
HighestIpu highest_ipu(const ir::Module& module);

}  // namespace poptorch::partition
