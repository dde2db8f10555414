// The order in which a graph's ops run.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace poptorch::lowering {

// Returns the op list, but moves state writes and ops that serve only them (weight gradients,
// updates). They run as early as their operands and other uses of that state allow. A gradient
// lives from its computation to its update, not to the end of the backward pass. Values do not
// change. Takes time linear in the number of operands.
std::vector<const ir::Op*> schedule_ops(const ir::Graph& graph);

}  // namespace poptorch::lowering
