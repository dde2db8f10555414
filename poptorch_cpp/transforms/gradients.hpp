// The core of autodiff: reverse-mode gradients built at the end of a graph, by the gradient rules
// of the ops' rows. Both the training path and the gradient graphs of autodiff.hpp come from here.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace poptorch::transforms {

// Where backpropagation begins: `gradient`, of `value`'s type, is a value of the same graph.
struct GradientSeed {
  ir::Value* value;
  ir::Value* gradient;
};

// Appends the ops that compute the gradients of `wanted` (inputs of the graph or results of its
// ops; a `variable` result stands for all reads of its slot), and returns them in order, nullptr
// where no seed depends on the value through differentiable ops.
//  - Gradients of a value with several uses are added in the order of the forward ops' ids.
//  - A backward op gets placement, scope and location of its forward op, and its id as forward_id.
//  - Memory that is overwritten after the forward op read it is copied before, where the backward
//    op needs it.
//  - `repeat` on the path becomes calls, one a round; called graphs get further outputs for what
//    their gradient graphs need (see autodiff.hpp).
// UnsupportedError: a needed op has no gradient; a gradient would pass through memory written in
// place. InternalError: a rule gives a gradient of another type than its operand.
std::vector<ir::Value*> add_gradients(ir::Graph& graph, std::vector<GradientSeed> seeds,
                                      std::vector<ir::Value*> wanted);

}  // namespace poptorch::transforms
