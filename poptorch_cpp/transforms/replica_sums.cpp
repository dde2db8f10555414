// Implements replica_sums.hpp.
#include "transforms/replica_sums.hpp"

#include <limits>

namespace poptorch::transforms {
namespace {

ReplicaGroup group_of(const std::string& parameter, const PassContext& context) {
  auto it = context.replica_groups.find(parameter);
  return it == context.replica_groups.end() ? ReplicaGroup() : it->second;
}

}  // namespace

ir::Value* sum_over_replicas(ir::Builder& builder, ir::Value* gradient,
                             const std::string& parameter, const PassContext& context) {
  const ReplicaGroup group = group_of(parameter, context);
  if (context.replication_factor == 1 || group.size == 1) return gradient;
  return builder.value(
      "all_reduce", {gradient},
      {{"group_size", int64_t{group.size}}, {"group_stride", int64_t{group.stride}}});
}

ir::Value* sum_over_groups(ir::Builder& builder, ir::Value* number, const std::string& parameter,
                           const PassContext& context) {
  const int size = group_of(parameter, context).size;
  if (size == 0) return number;
  const ir::Val share = ir::Val{number, &builder} * (1.0 / size);  // each counts its own
  return builder.value("all_reduce", {share});
}

ir::Value* largest_of_groups(ir::Builder& builder, ir::Value* number, const std::string& parameter,
                             const PassContext& context) {
  if (group_of(parameter, context).size == 0) return number;
  ir::Value* infinite =
      builder.scalar(number->type().dtype, std::numeric_limits<double>::infinity());
  ir::Value* finite = builder.value("lt", {number, infinite});
  ir::Value* known = builder.value("select", {finite, number, infinite});
  return builder.value("all_reduce", {known}, {{"op", std::string("max")}});
}

}  // namespace poptorch::transforms
