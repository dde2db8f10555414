#pragma once

namespace poptorch::emulator {

// Throws UnsupportedError, with what is missing, if the host cannot run the kernels of this build.
// Everything but this function may use the build's narrowest instruction set.
void check_host();

}  // namespace poptorch::emulator
