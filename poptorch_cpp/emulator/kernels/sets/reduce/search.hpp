// Declares what reduce.cpp needs of the kernels of search.cpp.
#pragma once

#include <memory>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Binds sum, prod, max and min of int32.
std::unique_ptr<BoundKernel> bind_integer_reduction(const KernelRequest& request, char how);

}  // namespace poptorch::emulator::inline POPTORCH_SET
