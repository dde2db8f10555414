// Finds the instances that run the replicas of a group.
#pragma once

#include <cstddef>
#include <vector>

#include "emulator/bound/share.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

// Lists the instances that run replicas of a group, and the first rank of each.
struct InstanceGroup {
  int number = 0;                      // ReplicaGroups::of
  support::Table<int, int> instances;  // ascending
  support::Table<int, int> begins;     // rank of each one's first replica; then the number of ranks
  int here = 0;                        // this one's place among `instances`
  bool is_on_one_host = false;         // all of them

  InstanceGroup(const Share& share, int number, const program::ReplicaGroups& groups);
  int ranks() const { return begins.back(); }
  int places() const { return static_cast<int>(instances.size()); }
  int count(int place) const { return begins[static_cast<size_t>(place) + 1] - begins[place]; }
  int begin() const { return begins[here]; }
  int instance(int place) const { return instances[place]; }
  int place_of(int rank) const;
};

}  // namespace poptorch::emulator
