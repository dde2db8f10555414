// The core of autodiff: builds reverse-mode gradients at the end of a graph, by the gradient rules
// of the ops' rows. The training path and the gradient graphs of autodiff.hpp both use it.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace poptorch::transforms {

// A start of backpropagation: `gradient`, of `value`'s type, is a value of the same graph.
struct GradientSeed {
  ir::Value* value;
  ir::Value* gradient;
};

// Appends the ops that compute the gradients of `wanted` (inputs of the graph or results of its
// ops; a `variable` result stands for all reads of its slot). Returns them in order, nullptr where
// no seed depends on the value through differentiable ops.
//  - Gradients of a value with several uses are added in the order of the forward ops' ids.
//  - A backward op gets placement, scope and location of its forward op, and its id as forward_id.
//  - Memory that is overwritten after the forward op read it is copied before the write, if the
//    backward op needs it.
//  - A `repeat` on the path becomes one call per round. Called graphs get further outputs, which
//    their gradient graphs need (see autodiff.hpp).
// Raises UnsupportedError if a needed op is not differentiable, or if a gradient would pass through
// memory written in place. Raises InternalError if a rule gives a gradient of another type than its
// operand.
std::vector<ir::Value*> add_gradients(ir::Graph& graph, std::vector<GradientSeed> seeds,
                                      std::vector<ir::Value*> wanted);

}  // namespace poptorch::transforms
