// Kernels that the engine makes itself: what the reference library and foreign providers offer, as
// bound kernels.
#pragma once

#include <memory>

#include "emulator/kernels/kernel.hpp"

namespace poptorch::emulator {

// The foreign provider's kernel for a foreign op, else the reference kernel. UserError that names
// the provider or the op when there is none.
std::unique_ptr<BoundKernel> bind_fallback(const KernelRequest& request);

}  // namespace poptorch::emulator
