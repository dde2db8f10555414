// Calls and loops that give, besides their results, what the graph leaves in some of its inputs.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.hpp"

namespace poptorch::transforms {

// What a graph makes of its input `index`: a value of that graph, of the input's type.
struct LeftInput {
  size_t index;
  ir::Value* value;
};

// Replaces a call or `repeat` by one that runs a copy, called `name`, of `body` on the operands.
// Its results are those of `body`, then what is left in the inputs; the old op's are the first of
// them. From one round of a loop to the next, what is left goes in again, unless an output feeds
// that input.
ir::Op* return_inputs(ir::Op& op, ir::Symbol name, ir::Graph& body,
                      const std::vector<ir::Value*>& operands, const std::vector<LeftInput>& left);

}  // namespace poptorch::transforms
