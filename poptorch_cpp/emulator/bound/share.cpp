#include "emulator/bound/share.hpp"

#include <algorithm>

#include "program/replica_groups.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

void Share::check(int replicas) const {
  if (instances < 1 || instance < 0 || instance >= instances) {
    throw support::UserError(str("[instances] there is no instance ", instance, " of ", instances,
                                 ". Instances are numbered from 0."));
  }
  if (replicas % instances != 0) {
    throw support::UserError(str("[instances] ", replicas, " replicas cannot be shared by ",
                                 instances, " instances: each must have equally many. Choose a ",
                                 "number of replicas that is a multiple of ", instances, "."));
  }
}

std::vector<int> Share::groups(const program::ReplicaGroups& groups) const {
  std::vector<int> found;
  const int begin = first(groups.replicas);
  for (int replica = begin; replica < begin + count(groups.replicas); ++replica) {
    found.push_back(groups.of(replica));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool Share::is_on_one_host(int group, const program::ReplicaGroups& groups) const {
  const std::vector<int> members = groups.members(group);
  return !on_this_host.empty() && std::ranges::all_of(members, [&](int replica) {
    return on_this_host[owner(replica, groups.replicas)];
  });
}

}  // namespace poptorch::emulator
