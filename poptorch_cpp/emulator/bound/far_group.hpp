// Finds the instances that run the replicas of a group.
#pragma once

#include <cstddef>
#include <vector>

#include "emulator/bound/share.hpp"

namespace poptorch::emulator {

// Lists the instances that run replicas of a group, and the first rank of each.
struct FarGroup {
  int number = 0;              // ReplicaGroups::of
  std::vector<int> instances;  // ascending
  std::vector<int> begins;     // rank of each one's first replica; then the number of ranks
  int here = 0;                // this one's place among `instances`
  bool is_near = false;        // all are near each other

  FarGroup(const Share& share, int number, const program::ReplicaGroups& groups);
  int ranks() const { return begins.back(); }
  int places() const { return static_cast<int>(instances.size()); }
  int count(int place) const {
    return begins[static_cast<size_t>(place) + 1] - begins[static_cast<size_t>(place)];
  }
  int begin() const { return begins[static_cast<size_t>(here)]; }
  int instance(int place) const { return instances[static_cast<size_t>(place)]; }
  int place_of(int rank) const;
};

}  // namespace poptorch::emulator
