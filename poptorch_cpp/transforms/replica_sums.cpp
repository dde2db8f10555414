// Implements replica_sums.hpp.
#include "transforms/replica_sums.hpp"

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::transforms {

ir::Value* sum_over_replicas(ir::Builder& builder, ir::Value* gradient,
                             const std::string& parameter, const PassContext& context,
                             bool looks_at_all) {
  auto it = context.replica_groups.find(parameter);
  const ReplicaGroup group = it == context.replica_groups.end() ? ReplicaGroup() : it->second;
  if (group.size != 0 && looks_at_all) {
    throw support::UnsupportedError(support::str(
        "[optimiser] parameter '", parameter, "' has a value for each group of ", group.size,
        " replicas, but the norm of all gradients and automatic loss scaling need the gradients of "
        "all of them. Leave out max_grad_norm and setAutomaticLossScaling, or the "
        "replicaGrouping."));
  }
  if (context.replication_factor == 1 || group.size == 1) return gradient;
  return builder.value(
      "all_reduce", {gradient},
      {{"group_size", int64_t{group.size}}, {"group_stride", int64_t{group.stride}}});
}

}  // namespace poptorch::transforms
