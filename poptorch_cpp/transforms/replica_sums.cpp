#include "transforms/replica_sums.hpp"

#include <limits>

#include "ir/execution.hpp"

namespace poptorch::transforms {
ir::Value* sum_over_replicas(ir::Builder& builder, ir::Value* gradient,
                             const std::string& parameter, const ir::Execution& execution) {
  const ir::ReplicaGroup group = execution.group_of(parameter);
  if (execution.replication_factor == 1 || group.size == 1) return gradient;
  return builder.value("all_reduce", {gradient},
                       {{"group_size", group.size}, {"group_stride", group.stride}});
}

ir::Value* sum_over_groups(ir::Builder& builder, ir::Value* number, const std::string& parameter,
                           const ir::Execution& execution) {
  const int64_t size = execution.group_of(parameter).size;
  if (size == 0) return number;
  const ir::Val share =
      ir::Val{number, &builder} * (1.0 / static_cast<double>(size));  // each replica adds its share
  return builder.value("all_reduce", {share});
}

ir::Value* largest_of_groups(ir::Builder& builder, ir::Value* number, const std::string& parameter,
                             const ir::Execution& execution) {
  if (execution.group_of(parameter).size == 0) return number;
  ir::Value* infinite =
      builder.scalar(number->type().dtype, std::numeric_limits<double>::infinity());
  ir::Value* finite = builder.value("lt", {number, infinite});
  ir::Value* known = builder.value("select", {finite, number, infinite});
  return builder.value("all_reduce", {known}, {{"op", std::string("max")}});
}

}  // namespace poptorch::transforms
