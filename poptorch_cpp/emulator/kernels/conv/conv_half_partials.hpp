// Convolutions whose partial sums are float16, on float32 operands with values of float16. The
// terms of a sum have the order (kernel position, channel); those of a weight's gradient, that of
// the output's pixels. Terms in the padding are zero.
#pragma once

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

// Return nullptr for a request with an epilogue.
std::unique_ptr<BoundKernel> make_half_partials_conv(const KernelRequest& request,
                                                     const ConvShape& shape);
std::unique_ptr<BoundKernel> make_half_partials_grad_input(const ConvShape& shape);
std::unique_ptr<BoundKernel> make_half_partials_grad_weight(const ConvShape& shape);

}  // namespace poptorch::emulator
