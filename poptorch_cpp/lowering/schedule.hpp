// The order in which a graph's ops run.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace poptorch::lowering {

// The op list, but with state writes and what is computed for them alone (weight gradients,
// updates) as early as their operands and the other uses of that state allow: a gradient then lives
// from its computation to its update, not to the end of the backward pass. Values do not change.
// Linear in the number of operands.
std::vector<const ir::Op*> schedule_ops(const ir::Graph& graph);

}  // namespace poptorch::lowering
