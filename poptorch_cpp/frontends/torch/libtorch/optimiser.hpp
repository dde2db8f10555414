// LibTorch's optimisers as the compiler takes them.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>
#include <utility>
#include <vector>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "ir/optimiser_spec.hpp"

namespace poptorch::frontend {

// `state` names the parameters. UnsupportedError for classes that have no lowering, UserError for
// an optimiser of other parameters than the model's.
ir::OptimiserSpec describe(const torch::optim::Optimizer& optimizer,
                           const std::vector<NamedTensor>& state);

// Slots to write so that a model compiled with `compiled` takes the values of `wanted`. UserError
// where a constant differs.
std::vector<std::pair<std::string, double>> changes(const ir::OptimiserSpec& compiled,
                                                    const ir::OptimiserSpec& wanted);
// Slots whose contents are to be multiplied: velocities of another scale than before.
std::vector<std::pair<std::string, double>> rescaled(const ir::OptimiserSpec& before,
                                                     const ir::OptimiserSpec& after);

}  // namespace poptorch::frontend
