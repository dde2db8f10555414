// Identifies this build of the compiler.
#pragma once

#include <string>

namespace poptorch::support {

// Returns the version of this project, as files record it.
std::string version();

// Returns the version of torch that the front end is built with; empty in a build without torch.
std::string torch_version();

// Returns what the linker computed from the code of this library or program, in hexadecimal digits.
// A build of other sources has another id. Returns an empty text if the linker recorded none.
std::string build_id();

}  // namespace poptorch::support
