// Convolution as a matrix product of gathered patches and packed weights. The forward convolution
// uses it, and so does the input gradient at stride 1, which is a convolution with flipped weights.
#pragma once

#include <functional>

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

// Describes how a kernel position's weights are read as a matrix [in of group, out of group].
struct WeightView {
  MatrixView matrix;       // strides only
  int64_t tap_stride = 0;  // elements between kernel positions
  int64_t group_stride = 0;
  bool flipped = false;
  bool in_panels = false;  // in memory already
};

// Numbers of the buffers: x at `x`, weights at `w`, bias at `bias` (-1: none), result at `y`.
struct ConvBuffers {
  int x = 0, w = 1, bias = -1, y = 2;
};

std::unique_ptr<BoundKernel> make_conv_gemm(const KernelRequest& request, const ConvShape& shape,
                                            const WeightView& weights, ConvBuffers buffers);

}  // namespace poptorch::emulator
