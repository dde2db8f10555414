// Convolutions of batches as oneDNN primitives, each task some images.
#pragma once

#include "emulator/kernels/conv_shape.hpp"

namespace poptorch::emulator {

// Forward: inputs x, w, bias?; the output and the epilogue as for any kernel. Backward: inputs the
// gradient of y, and w; the output the gradient of x, of which `shape` has the geometry. nullptr
// where the loops of conv_gemm.hpp are the better choice.
std::unique_ptr<BoundKernel> make_onednn_conv(const KernelRequest& request, const ConvShape& shape);
std::unique_ptr<BoundKernel> make_onednn_grad_input(const KernelRequest& request,
                                                    const ConvShape& shape);

}  // namespace poptorch::emulator
