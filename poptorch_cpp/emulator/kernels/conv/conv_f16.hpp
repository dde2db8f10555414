// The convolution of float16 values, whose sums in float32 have the order of eager torch's.
#pragma once

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

// Returns nullptr for shapes whose sums take long: they run on the kernels of float32. The request
// is widened to float32; the caller rounds once.
std::unique_ptr<BoundKernel> make_f16_conv(const KernelRequest& request, const ConvShape& shape);

}  // namespace poptorch::emulator
