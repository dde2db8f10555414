// Groups of replicas that share a value or take part in one collective.
#pragma once

#include <vector>

namespace poptorch::program {

// Group g has the replicas r, r + stride, ..., r + (size - 1) * stride; size 0 is one group of all.
struct ReplicaGroups {
  int replicas = 1;
  int size = 0;
  int stride = 1;

  int count() const { return size == 0 ? 1 : replicas / size; }
  int ranks() const { return size == 0 ? replicas : size; }  // of one group
  int of(int replica) const {
    return size == 0 ? 0 : replica / (size * stride) * stride + replica % stride;
  }
  int rank(int replica) const { return size == 0 ? replica : replica / stride % size; }
  // The replicas of a group, ascending.
  std::vector<int> members(int group) const {
    const int step = size == 0 ? 1 : stride;
    const int first = size == 0 ? 0 : group / stride * (size * stride) + group % stride;
    std::vector<int> members;
    for (int i = 0; i < ranks(); ++i) members.push_back(first + i * step);
    return members;
  }
};

// Returns the groups of a state slot or a stream.
template <typename Grouped>
ReplicaGroups groups_of(const Grouped& grouped, int replicas) {
  return {replicas, grouped.group_size, grouped.group_stride};
}

}  // namespace poptorch::program
