// Reduces gradients over replicas: within the groups that share a parameter, and over all groups.
#pragma once

#include <string>

#include "ir/builder.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {

// Returns the gradient of `parameter`, added up over the replicas of its group.
ir::Value* sum_over_replicas(ir::Builder& builder, ir::Value* gradient,
                             const std::string& parameter, const ir::Execution& execution);

// Return, on every replica, the sum or the maximum over all groups of a number that every replica
// of a group of `parameter` has. In the maximum, NaN counts as infinite.
ir::Value* sum_over_groups(ir::Builder& builder, ir::Value* number, const std::string& parameter,
                           const ir::Execution& execution);
ir::Value* largest_of_groups(ir::Builder& builder, ir::Value* number, const std::string& parameter,
                             const ir::Execution& execution);

}  // namespace poptorch::transforms
