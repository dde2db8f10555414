#include "emulator/bound/instance_group.hpp"

#include <algorithm>

#include "program/replica_groups.hpp"

namespace poptorch::emulator {

InstanceGroup::InstanceGroup(const Share& share, int number, const program::ReplicaGroups& groups)
    : number(number) {
  int rank = 0;
  for (int replica : groups.members(number)) {
    const int owner = share.owner(replica, groups.replicas);
    if (instances.empty() || instances.back() != owner) {
      if (owner == share.instance) here = places();
      instances.push_back(owner);
      begins.push_back(rank);
    }
    ++rank;
  }
  begins.push_back(rank);
  is_on_one_host = share.is_on_one_host(number, groups);
}

int InstanceGroup::place_of(int rank) const {
  const auto behind = std::upper_bound(begins.begin(), begins.end(), rank);
  return static_cast<int>(behind - begins.begin()) - 1;
}

}  // namespace poptorch::emulator
