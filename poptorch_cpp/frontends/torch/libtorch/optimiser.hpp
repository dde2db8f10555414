// LibTorch's optimisers as the compiler takes them.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>
#include <utility>
#include <vector>

#include "frontends/torch/tracer/tracer.hpp"
#include "ir/optimiser_spec.hpp"

namespace poptorch::frontend {

// `state` names the parameters. UnsupportedError for a class other than SGD, Adam and AdamW.
ir::OptimiserSpec describe(const torch::optim::Optimizer& optimizer,
                           const std::vector<NamedTensor>& state);

// Slots to write so that a model compiled with `compiled` takes the values of `wanted`. UserError
// where a constant differs.
std::vector<std::pair<std::string, double>> changes(const ir::OptimiserSpec& compiled,
                                                    const ir::OptimiserSpec& wanted);

}  // namespace poptorch::frontend
