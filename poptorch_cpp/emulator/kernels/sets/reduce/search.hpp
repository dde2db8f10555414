// Declares what the files of this folder share.
#pragma once

#include <memory>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Binds Bind<T> for the element type of operand 0: float (half types widened), int32 or a byte of
// truth. `first` is whether the op is the first that the struct's comment names.
template <template <typename> typename Bind, bool first>
std::unique_ptr<BoundKernel> by_type(const KernelRequest& request) {
  switch (request.inputs[0]->dtype) {
    case ir::DType::kF32:
      return Bind<float>::bind(request, first);
    case ir::DType::kI32:
      return Bind<int32_t>::bind(request, first);
    case ir::DType::kBool:
      return Bind<uint8_t>::bind(request, first);
    default:
      return nullptr;
  }
}

// Binds sum, prod, max and min of int32.
std::unique_ptr<BoundKernel> bind_integer_reduction(const KernelRequest& request, char how);

}  // namespace poptorch::emulator::inline POPTORCH_SET
