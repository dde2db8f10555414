// Implements share.hpp.
#include "emulator/share.hpp"

#include <algorithm>

#include "emulator/fabric.hpp"
#include "program/program.hpp"
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
  if (fabric && (fabric->instances() != instances || fabric->instance() != instance)) {
    throw support::UserError(str("[instances] this is instance ", instance, " of ", instances,
                                 ", but its fabric joins instance ", fabric->instance(), " of ",
                                 fabric->instances(), ". Make one of the same numbers."));
  }
}

void Share::find_near() {
  near.clear();
  for (int other = 0; fabric && other < instances; ++other) {
    near.push_back(other == instance || fabric->is_near(other));
  }
}

std::vector<int> Share::groups(int replicas, int size, int stride) const {
  std::vector<int> groups;
  const int begin = first(replicas);
  for (int replica = begin; replica < begin + count(replicas); ++replica) {
    groups.push_back(program::group_of(replica, size, stride));
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

bool Share::is_near_group(int group, int replicas, int size, int stride) const {
  const std::vector<int> members = members_of_group(group, replicas, size, stride);
  return !near.empty() && std::ranges::all_of(members, [&](int replica) {
    return near[static_cast<size_t>(owner(replica, replicas))];
  });
}

std::vector<int> members_of_group(int group, int replicas, int size, int stride) {
  std::vector<int> members;
  const int step = size == 0 ? 1 : stride;
  const int first = size == 0 ? 0 : group / stride * (size * stride) + group % stride;
  const int count = size == 0 ? replicas : size;
  for (int i = 0; i < count; ++i) members.push_back(first + i * step);
  return members;
}

}  // namespace poptorch::emulator
