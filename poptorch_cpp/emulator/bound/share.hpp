// Says which of a program's replicas this process runs. A program of R replicas runs as N instances
// of R / N each: instance i has replicas i·R/N to (i+1)·R/N - 1. The program is the same in all of
// them; only the engine knows its share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace poptorch::program {
struct ReplicaGroups;
}

namespace poptorch::emulator {

class Fabric;  // transport/fabric.hpp

struct Share {
  int instances = 1;
  int instance = 0;
  // Carries bytes to the other instances. May be null where nothing is run that needs them.
  std::shared_ptr<Fabric> fabric = nullptr;
  // For each instance, whether it runs on this host, so that each can read the other's memory.
  // Empty without a fabric. note_fabric() fills it, and `least_shared`.
  std::vector<bool> on_this_host = {};
  int64_t least_shared = 0;  // bytes of an operand that is worth reading where it is
  double timeout = 300;      // seconds for which this instance waits for another; 0: for ever

  // Raises UserError unless this instance exists, and all have equally many of `replicas`.
  void check(int replicas) const;

  int count(int replicas) const { return replicas / instances; }
  int first(int replicas) const { return instance * count(replicas); }
  bool has(int replica, int replicas) const {
    return replica >= first(replicas) && replica < first(replicas) + count(replicas);
  }
  // Returns the instance that runs `replica`.
  int owner(int replica, int replicas) const { return replica / count(replicas); }
  // Returns the groups that have a replica here, ascending.
  std::vector<int> groups(const program::ReplicaGroups& groups) const;
  // Returns whether all instances that run a replica of the group are on this host.
  bool is_on_one_host(int group, const program::ReplicaGroups& groups) const;
};

}  // namespace poptorch::emulator
