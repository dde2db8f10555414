// Convolutions in which every channel has its own kernel, or groups are narrow, as loops over
// channels-last memory: see ConvShape::by_channels().
#pragma once

#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

// These return nullptr when the kernel has more positions than the loops support.
std::unique_ptr<BoundKernel> make_depthwise(const KernelRequest& request, const ConvShape& shape);
std::unique_ptr<BoundKernel> make_depthwise_grad_input(const ConvShape& shape);
std::unique_ptr<BoundKernel> make_depthwise_grad_weight(const ConvShape& shape);

}  // namespace poptorch::emulator
