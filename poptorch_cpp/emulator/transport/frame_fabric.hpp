// The fabric of instances that wires join, such as those on several hosts; with another for what
// those of one host have among themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/transport/fabric.hpp"
#include "emulator/transport/wire.hpp"

namespace poptorch::emulator {

// An instance as this one reaches it: over its wire, and, where it is near, as instance
// `near_number` of the near fabric.
struct Reached {
  std::string name;  // Fabric::name
  std::unique_ptr<Wire> wire = nullptr;
  int near_number = -1;
};

// `others`: one an instance, `instance` itself among them, without a wire. `near` may be null.
// Messages of `least_loan` bytes and more are lent: the same in all instances.
std::unique_ptr<Fabric> make_frame_fabric(int instance, std::vector<Reached> others,
                                          std::shared_ptr<Fabric> near,
                                          int64_t least_loan = int64_t{1} << 20);

}  // namespace poptorch::emulator
