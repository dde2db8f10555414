// Makes the fabric of instances that are connected by wires, such as those on several hosts.
// Instances of one host may have a second fabric, the local one, for messages among themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/transport/fabric.hpp"
#include "emulator/transport/wire.hpp"

namespace poptorch::emulator {

// Says how this instance reaches another: over its wire and, if it is on this host, as instance
// `local_number` of the local fabric.
struct Reached {
  std::string name;  // Fabric::name
  std::unique_ptr<Wire> wire = nullptr;
  int local_number = -1;
};

// `others` has an entry per instance; that of `instance` itself is without a wire. `local` may be
// null. Messages of `least_bulk` bytes and more are zero-copy transfers; the value must be the same
// in all instances.
std::unique_ptr<Fabric> make_frame_fabric(int instance, std::vector<Reached> others,
                                          std::shared_ptr<Fabric> local,
                                          int64_t least_bulk = int64_t{1} << 20);

}  // namespace poptorch::emulator
