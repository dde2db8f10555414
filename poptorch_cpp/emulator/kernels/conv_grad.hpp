// Kernels of the convolution gradients, on channels-last memory.
#pragma once

#include "emulator/kernels/conv_shape.hpp"

namespace poptorch::emulator {

// dy, w → dx of any convolution; the cheaper way only when it is strided.
std::unique_ptr<BoundKernel> make_scatter_grad_input(const ConvShape& shape);
// x, dy → dw.
std::unique_ptr<BoundKernel> make_conv_grad_weight(const ConvShape& shape);

}  // namespace poptorch::emulator
