// A transposed convolution, made from the kernel of a convolution's input gradient. The two differ
// only in what follows the products.
#pragma once

#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

// Returns the request without bias and epilogue, for which `products` of the function below is
// bound.
KernelRequest products_of_transpose(const KernelRequest& request);
// Inputs are x, w and an optional bias; output and epilogue are as for any kernel, on channels-last
// memory.
std::unique_ptr<BoundKernel> make_conv_transpose(const KernelRequest& request,
                                                 std::unique_ptr<BoundKernel> products);

}  // namespace poptorch::emulator
