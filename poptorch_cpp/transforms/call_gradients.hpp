// Computes gradients of ops that run other graphs: calls, and loops unrolled into calls.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/builder.hpp"
#include "transforms/autodiff.hpp"
#include "transforms/gradients.hpp"

namespace poptorch::transforms {

class CallGradients {
 public:
  // Prepares every call of `graph` that a gradient passes through and that does not name a gradient
  // graph: it then calls a copy of its graph that also returns what the gradient graph needs. A
  // `repeat` on the path becomes one call per round. Values in `seeds` and `wanted` that are
  // results of replaced ops are replaced, too. Raises UnsupportedError for an `if` on the path, and
  // for a called graph that reads a wanted parameter's slot itself.
  CallGradients(ir::Graph& graph, std::vector<GradientSeed>& seeds,
                std::vector<ir::Value*>& wanted);

  bool handles(const ir::Op& op) const { return prepared_.count(&op) != 0; }
  // Calls the gradient graph. Returns the gradients of the operands, nullptr where there is none.
  std::vector<ir::Value*> gradients_of(const ir::Op& op, const ir::GradBuilder& rule,
                                       ir::Builder& builder) const;

 private:
  std::unordered_map<const ir::Op*, std::shared_ptr<const GradientGraph>> prepared_;
};

}  // namespace poptorch::transforms
