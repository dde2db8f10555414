// Makes bound kernels from the reference library and foreign providers.
#pragma once

#include <memory>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

// Returns the foreign provider's kernel for a foreign op, else the reference kernel. If there is
// none, throws UserError that names the provider, or UnsupportedError that names the op.
std::unique_ptr<BoundKernel> bind_fallback(const KernelRequest& request);

}  // namespace poptorch::emulator
