// Autodiff, graph → graph: makes the gradient graph of a graph that is called. PopXL's `autodiff`
// and the gradients of called graphs on the training path use it.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace poptorch::transforms {

struct GradientConnection {
  enum class Kind : uint8_t { kForward, kForwardGradient };
  Kind kind;
  ir::Value* forward;  // a value of the forward graph; kForwardGradient: the gradient of it
};

struct GradientGraph {
  ir::Graph* forward;
  ir::Graph* gradient;
  std::vector<size_t> provided;  // indices of the forward outputs whose gradients come first
  // The operands of the gradient graph: gradients of forward outputs, then forward tensors. Each
  // tensor is an input or an output of the forward graph or, as a last resort, becomes an output.
  std::vector<GradientConnection> inputs;
  // The results of the gradient graph: gradients of forward inputs, without those that no output
  // depends on.
  std::vector<GradientConnection> outputs;
};

// Makes graph `<forward>_gradient` (numbered if the name is taken). Given the gradients of the
// outputs of `forward` at the indices `provided`, it computes those of its inputs `required`. Adds
// outputs to `forward`, so that calls of `forward` must be made afterwards. Constants and reads of
// state slots are repeated in the gradient graph. Raises the errors of add_gradients().
GradientGraph autodiff(ir::Graph& forward, const std::vector<size_t>& provided,
                       const std::vector<ir::Value*>& required);

}  // namespace poptorch::transforms
