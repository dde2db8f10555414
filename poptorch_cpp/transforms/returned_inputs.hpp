// Makes calls and loops return, besides their results, the final values of some of their inputs.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.hpp"

namespace poptorch::transforms {

// The final value of a graph's input `index`: a value of that graph, of the input's type.
struct LeftInput {
  size_t index;
  ir::Value* value;
};

// Replaces a call or `repeat` by one that runs a copy, called `name`, of `body` on the operands.
// Its results are those of `body`, then the final values in `left`; the first of them replace the
// old op's results. In a loop, a final value is the input of the next round, unless an output feeds
// that input.
ir::Op* return_inputs(ir::Op& op, ir::Symbol name, ir::Graph& body,
                      const std::vector<ir::Value*>& operands, const std::vector<LeftInput>& left);

}  // namespace poptorch::transforms
