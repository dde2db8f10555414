// Gradients over replicas: sums in the groups that share a parameter, and what the groups have
// together.
#pragma once

#include <string>

#include "ir/builder.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {

// The gradient of `parameter`, added up over the replicas of its group.
ir::Value* sum_over_replicas(ir::Builder& builder, ir::Value* gradient,
                             const std::string& parameter, const ir::Execution& execution);

// Of a number that every replica of a group of `parameter` has: the sum, or the largest, over all
// groups, on every replica. What is not a number counts as infinite in the largest.
ir::Value* sum_over_groups(ir::Builder& builder, ir::Value* number, const std::string& parameter,
                           const ir::Execution& execution);
ir::Value* largest_of_groups(ir::Builder& builder, ir::Value* number, const std::string& parameter,
                             const ir::Execution& execution);

}  // namespace poptorch::transforms
