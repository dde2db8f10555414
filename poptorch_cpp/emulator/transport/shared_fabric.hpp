// The fabric of instances on one host: a file in memory that all of them map, with a ring of
// messages for every pair.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {

// Joins this process, as `instance` of `instances`, to the others that come to the same place;
// waits until all are there. `timeout` is in seconds, 0: for ever. UserError when the place is not
// this user's alone, when it has another number of instances, when this instance is there already,
// or when not all come in time (named). support::Interrupted as everywhere. `numbers`: what
// messages call the instances; empty: by their numbers here.

// `path`: of a file for these instances alone, in a folder in memory such as /dev/shm. The first
// makes it (mode 0600); its name is taken away by the last, or by who has waited in vain.
std::unique_ptr<Fabric> make_shared_fabric(const std::string& path, int instance, int instances,
                                           double timeout, std::vector<int> numbers = {});
// `file`: open and empty at first, such as of memfd_create(); it stays the caller's.
std::unique_ptr<Fabric> make_shared_fabric(int file, int instance, int instances, double timeout,
                                           std::vector<int> numbers = {});

}  // namespace poptorch::emulator
