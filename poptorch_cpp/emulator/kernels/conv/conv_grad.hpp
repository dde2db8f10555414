// Kernels of the convolution gradients, on channels-last memory.
#pragma once

#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

// Computes dx from dy and w, for any convolution; cheaper than the alternatives only at a stride.
std::unique_ptr<BoundKernel> make_scatter_grad_input(const ConvShape& shape);
// Computes dw from x and dy.
std::unique_ptr<BoundKernel> make_conv_grad_weight(const ConvShape& shape);
// The same where all of them have one half type.
std::unique_ptr<BoundKernel> make_conv_grad_weight_halves(const ConvShape& shape, ir::DType dtype);

}  // namespace poptorch::emulator
