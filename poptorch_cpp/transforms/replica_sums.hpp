// Sums of gradients over the replicas that share a parameter.
#pragma once

#include <string>

#include "ir/builder.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {

// The gradient of `parameter`, added up over the replicas of its group. UnsupportedError for a
// group of some replicas where the update `looks_at_all` gradients.
ir::Value* sum_over_replicas(ir::Builder& builder, ir::Value* gradient,
                             const std::string& parameter, const PassContext& context,
                             bool looks_at_all);

}  // namespace poptorch::transforms
