// Kernels that read and write halves where they are stored. A row of the table names a struct with
// the numbers of the operands and results that its kernel takes as they are, and `bind<X, Y>`, for
// operands of X and results of Y; further halves, such as weights of channels, are widened.
#pragma once

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {

// Halves in memory. Kernels convert them where they load and store: sets/rows.hpp.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

// The operands and results that a kernel takes as they are, a bit for each.
struct StoredBuffers {
  uint64_t operands, results;
};

// The same kernel for each pair of types: floats; halves in both; halves that become floats.
struct StoredForms {
  BindFn floats, halves = nullptr, bfloats = nullptr, from_halves = nullptr, from_bfloats = nullptr;
};

// Returns the kernel whose form has the types of the buffers in `stored`. If there is no such form,
// the kernel gets all halves as floats.
std::unique_ptr<BoundKernel> bind_stored_forms(const KernelRequest& request,
                                               const StoredBuffers& stored,
                                               const StoredForms& forms);

template <typename Kernel>
std::unique_ptr<BoundKernel> bind_stored(const KernelRequest& request) {
  return bind_stored_forms(
      request, Kernel::kStored,
      {Kernel::template bind<float, float>, Kernel::template bind<Half, Half>,
       Kernel::template bind<Bfloat, Bfloat>, Kernel::template bind<Half, float>,
       Kernel::template bind<Bfloat, float>});
}

}  // namespace poptorch::emulator
