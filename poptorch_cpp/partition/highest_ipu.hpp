// How many IPUs a replica has: up to the highest that its work is on.
#pragma once

#include "ir/module.hpp"

namespace poptorch::partition {

struct HighestIpu {
  int number = 0;
  const ir::Op* user = nullptr;  // an op there, where the number is above 0
};

// Of main and the graphs that it calls: where their ops work, or copy to what nothing uses.
HighestIpu highest_ipu(const ir::Module& module);

}  // namespace poptorch::partition
