// Differentiable collectives between the replicas of a wrapped model, for use inside the model. The
// replicas are all that train together, in every process.
//
//   auto rows = poptorch::distributed::all_gather(x);  // the rows of all replicas
//
// Outside of a wrapped model, and with one replica, each group has one member: results have the
// values of the arguments. Every replica has its own loss, and a gradient is that of the sum of the
// losses. The optimiser adds up the gradients of weights that replicas share, or takes their mean,
// as it does without collectives.
// The functions throw for an undefined tensor, and for a dtype that cannot be reduced or is
// complex. They also throw for a group that does not divide the replicas, and for a dimension that
// the group does not divide.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "poptorch/options.hpp"

namespace poptorch::distributed {

// Divides the replicas into groups of `size` replicas that are `stride` apart. The product of both
// must divide the number of replicas.
struct ReplicaGroup {
  int64_t size = 0;    // 0: all replicas are one group
  int64_t stride = 1;  // 0: as far apart as the replicas allow

  ReplicaGroup() = default;
  explicit ReplicaGroup(int64_t size, int64_t stride = 1) : size(size), stride(stride) {}
  // Only Consecutive and Orthogonal use `size`, and throw unless it is above 0.
  explicit ReplicaGroup(CommGroupType type, int64_t size = 0);
};

// Returns, on each replica, the sum of the group's tensors, or their "mean", "min", "max" or
// "prod". Values that tie for the least or largest share the gradient.
at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op = "sum",
                      const ReplicaGroup& group = {});

// Returns, on each replica, the group's tensors concatenated along `dim`. Scalars become a vector.
at::Tensor all_gather(const at::Tensor& tensor, int64_t dim = 0, const ReplicaGroup& group = {});

// Returns, on the group's replica i, the i-th part along `dim` of what all_reduce returns.
at::Tensor reduce_scatter(const at::Tensor& tensor, const std::string& op = "sum", int64_t dim = 0,
                          const ReplicaGroup& group = {});

// Sends the i-th part along `split_dim` to the group's replica i. Returns the received parts,
// concatenated along `concat_dim`.
at::Tensor all_to_all(const at::Tensor& tensor, int64_t split_dim = 0, int64_t concat_dim = 0,
                      const ReplicaGroup& group = {});

// Returns how many replicas a group has.
int64_t group_size(const ReplicaGroup& group = {});
// Returns the number of this replica in its group, from 0: an int32 scalar, known at run time.
at::Tensor group_rank(const ReplicaGroup& group = {});

}  // namespace poptorch::distributed
