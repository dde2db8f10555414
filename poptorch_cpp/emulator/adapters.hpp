// Kernels that the engine makes itself: what the reference library and foreign providers offer, as
// bound kernels; and which ops the run handles without a kernel.
#pragma once

#include <memory>

#include "emulator/kernel.hpp"

namespace poptorch::emulator {

// Works across replicas: a step of the run, not a kernel.
bool is_collective(const ir::OpDef& op);

// The foreign provider's kernel for a foreign op, else the reference kernel. UserError that names
// the provider or the op when there is none.
// The op is a foreign provider's: see foreign.hpp.
bool is_foreign(const ir::OpDef& op);
std::unique_ptr<BoundKernel> bind_fallback(const KernelRequest& request);

}  // namespace poptorch::emulator
