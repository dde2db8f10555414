// Which of a program's replicas this process runs. A program of R replicas runs as N instances of
// R / N each: instance i has the replicas i·R/N and those behind it. The program is the same in all
// of them; only the engine knows of its share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace poptorch::emulator {

class Fabric;  // fabric.hpp

struct Share {
  int instances = 1;
  int instance = 0;
  // Carries bytes to the other instances. May be null where nothing is run that needs them.
  std::shared_ptr<Fabric> fabric = nullptr;
  // For each instance, whether it runs on this host, so that each can read the other's memory.
  // Empty without a fabric. find_near() fills it.
  std::vector<bool> near = {};
  double timeout = 300;  // seconds for which this instance waits for another; 0: for ever

  // UserError unless there is such an instance, and each has equally many of `replicas`.
  void check(int replicas) const;

  void find_near();

  int count(int replicas) const { return replicas / instances; }
  int first(int replicas) const { return instance * count(replicas); }
  bool has(int replica, int replicas) const {
    return replica >= first(replicas) && replica < first(replicas) + count(replicas);
  }
  // The instance that runs `replica`.
  int owner(int replica, int replicas) const { return replica / count(replicas); }
  // Groups (program::group_of) that have a replica here, ascending.
  std::vector<int> groups(int replicas, int size, int stride) const;
  // Whether all instances that run a replica of the group are near.
  bool is_near_group(int group, int replicas, int size, int stride) const;
};

// The replicas of a group, ascending.
std::vector<int> members_of_group(int group, int replicas, int size, int stride);

}  // namespace poptorch::emulator
