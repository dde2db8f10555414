// Describes LibTorch's optimisers for the compiler.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>
#include <utility>
#include <vector>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "ir/optimiser_spec.hpp"

namespace poptorch::frontend {

// Describes the optimiser; `state` names the parameters. UnsupportedError for classes without a
// lowering, UserError for an optimiser of other parameters than the model's.
ir::OptimiserSpec describe(const torch::optim::Optimizer& optimizer,
                           const std::vector<NamedTensor>& state);

// Returns the slots to write so that a model compiled with `compiled` takes the values of `wanted`.
// UserError if a constant differs.
std::vector<std::pair<std::string, double>> changes(const ir::OptimiserSpec& compiled,
                                                    const ir::OptimiserSpec& wanted);
// Returns slots to multiply, with their factors: velocities of another scale than before.
std::vector<std::pair<std::string, double>> rescaled(const ir::OptimiserSpec& before,
                                                     const ir::OptimiserSpec& after);

}  // namespace poptorch::frontend
