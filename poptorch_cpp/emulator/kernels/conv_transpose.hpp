// A transposed convolution from the kernel of a convolution's input gradient, which it is but for
// what follows the products.
#pragma once

#include "emulator/kernels/conv_shape.hpp"

namespace poptorch::emulator {

// The request without bias and epilogue: what `products` of the function below are bound for.
KernelRequest products_of_transpose(const KernelRequest& request);
// Inputs x, w, bias?; the output and the epilogue as for any kernel, on channels-last memory.
std::unique_ptr<BoundKernel> make_conv_transpose(const KernelRequest& request,
                                                 std::unique_ptr<BoundKernel> products);

}  // namespace poptorch::emulator
