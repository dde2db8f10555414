// Which build of the compiler this is.
#pragma once

#include <string>

namespace poptorch::support {

// Of this project, as files name it.
std::string version();

// What the linker computed from the code of this library or program, in hexadecimal digits: another
// build of other sources has another. Empty where the linker noted none.
std::string build_id();

}  // namespace poptorch::support
