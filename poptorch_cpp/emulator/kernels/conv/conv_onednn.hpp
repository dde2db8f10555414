// Convolutions of batches as oneDNN primitives; each task processes some images.
#pragma once

#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

// Returns whether the operands are bfloat16 and the host multiplies pairs or matrices of them: then
// oneDNN has primitives on bfloat16, whose results may be floats.
bool has_primitives(const KernelRequest& request);
// Returns whether the shape is worth a primitive; oneDNN may not have one.
bool suits_onednn(const ConvShape& shape);
// Forward: inputs are x, w and an optional bias; output and epilogue are as for any kernel.
// Backward: inputs are the gradient of y, and w; the output is the gradient of x, whose geometry is
// `shape`. Returns nullptr where the loops of conv_gemm.hpp are the better choice.
std::unique_ptr<BoundKernel> make_onednn_conv(const KernelRequest& request, const ConvShape& shape);
std::unique_ptr<BoundKernel> make_onednn_grad_input(const KernelRequest& request,
                                                    const ConvShape& shape);
// Returns the same for the gradient of the weights.
bool suits_onednn_weights(const ConvShape& shape);
// Inputs are x and the gradient of y; the output is the gradient of the weights.
std::unique_ptr<BoundKernel> make_onednn_grad_weight(const KernelRequest& request,
                                                     const ConvShape& shape);

}  // namespace poptorch::emulator
