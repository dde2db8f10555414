// Collectives between the replicas of a wrapped model, for use inside of it, with gradients. A
// replica is one of all that train together, in whichever process it runs.
//
//   auto rows = poptorch::distributed::all_gather(x);  // those of all replicas
//
// Outside of a wrapped model, and with one replica, each group has the one member: results are the
// tensors themselves. Every replica has a loss of its own, and a gradient is that of their sum; the
// optimiser adds up the gradients of weights that replicas share, or takes their mean, as ever.
// Errors: no tensor; a dtype that cannot be reduced or is complex; a group that does not divide
// the replicas, or a dimension that the group does not divide.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "poptorch/options.hpp"

namespace poptorch::distributed {

// Which replicas meet: groups of `size`, `stride` apart, whose product divides the replicas.
struct ReplicaGroup {
  int64_t size = 0;    // 0: all replicas are one group
  int64_t stride = 1;  // 0: as far apart as the replicas allow

  ReplicaGroup() = default;
  explicit ReplicaGroup(int64_t size, int64_t stride = 1) : size(size), stride(stride) {}
  // `size` belongs to Consecutive and Orthogonal.
  explicit ReplicaGroup(CommGroupType type, int64_t size = 0);
};

// The sum, or "mean", "min", "max" or "prod", of the group's tensors, on each replica. Of values
// tied for the least or largest, each has its share of the gradient.
at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op = "sum",
                      const ReplicaGroup& group = {});

// The group's tensors one behind the other along `dim`, on each replica; of numbers a vector.
at::Tensor all_gather(const at::Tensor& tensor, int64_t dim = 0, const ReplicaGroup& group = {});

// The i-th part along `dim` of what all_reduce gives, on the group's replica i.
at::Tensor reduce_scatter(const at::Tensor& tensor, const std::string& op = "sum", int64_t dim = 0,
                          const ReplicaGroup& group = {});

// The i-th part along `split_dim` goes to the group's replica i. What a replica receives comes one
// behind the other along `concat_dim`.
at::Tensor all_to_all(const at::Tensor& tensor, int64_t split_dim = 0, int64_t concat_dim = 0,
                      const ReplicaGroup& group = {});

// How many replicas a group has.
int64_t group_size(const ReplicaGroup& group = {});
// Which of its group this replica is: a number, int32, that is known at run time.
at::Tensor group_rank(const ReplicaGroup& group = {});

}  // namespace poptorch::distributed
