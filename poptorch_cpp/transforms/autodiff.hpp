// Autodiff, graph → graph: the gradient graph of a graph that is called. PopXL's `autodiff` and the
// gradients of called graphs on the training path are this.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace poptorch::transforms {

struct GradientConnection {
  enum class Kind : uint8_t { kForward, kForwardGradient };
  Kind kind;
  ir::Value* forward;  // a value of the forward graph: itself, or what it is the gradient of
};

struct GradientGraph {
  ir::Graph* forward;
  ir::Graph* gradient;
  std::vector<size_t> provided;  // indices of the forward outputs whose gradients come first
  // What to hand to the gradient graph: gradients of forward outputs, then forward tensors. Each of
  // these is an input or an output of the forward graph, or, as a last resort, becomes an output.
  std::vector<GradientConnection> inputs;
  // What it gives: gradients of forward inputs; those that nothing depends on are left out.
  std::vector<GradientConnection> outputs;
};

// Makes graph `<forward>_gradient` (numbered when the name is taken): given the gradients of the
// outputs of `forward` at `provided` (indices), it computes those of its inputs `required`. Adds
// outputs to `forward`, so that calls of `forward` must be made afterwards. Constants and reads of
// state slots are repeated in the gradient graph. Refuses what add_gradients refuses.
GradientGraph autodiff(ir::Graph& forward, const std::vector<size_t>& provided,
                       const std::vector<ir::Value*>& required);

}  // namespace poptorch::transforms
