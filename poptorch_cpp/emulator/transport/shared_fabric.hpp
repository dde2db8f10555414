// Makes the fabric of instances on one host: all of them map one file in memory, with a ring of
// messages for every pair.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {

// Joins this process, as `instance` of `instances`, to the others that open the same file; waits
// until all have joined. `timeout` is in seconds, 0: for ever. Raises UserError when the file is
// not this user's alone, is for another number of instances, or has this instance already. Also
// raises it when not all come in time (it names them), and support::Interrupted as everywhere.
// `numbers` are the instances' numbers in messages; empty: their numbers here.

// `path` names a file for these instances alone, in a folder in memory such as /dev/shm. The first
// instance makes it (mode 0600). The last one unlinks it, or one whose wait fails.
std::unique_ptr<Fabric> make_shared_fabric(const std::string& path, int instance, int instances,
                                           double timeout, std::vector<int> numbers = {});
// `file` is open and empty at first, such as from memfd_create(). The caller keeps and closes it.
std::unique_ptr<Fabric> make_shared_fabric(int file, int instance, int instances, double timeout,
                                           std::vector<int> numbers = {});

}  // namespace poptorch::emulator
