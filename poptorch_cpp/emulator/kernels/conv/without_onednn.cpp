// Replaces conv_onednn*.cpp in a build without oneDNN: the loops of conv_gemm.hpp then serve every
// convolution.
#include "emulator/kernels/conv/conv_onednn.hpp"

namespace poptorch::emulator {

bool has_primitives(const KernelRequest&) { return false; }
bool suits_onednn(const ConvShape&) { return false; }
bool suits_onednn_weights(const ConvShape&) { return false; }

std::unique_ptr<BoundKernel> make_onednn_conv(const KernelRequest&, const ConvShape&) {
  return nullptr;
}

std::unique_ptr<BoundKernel> make_onednn_grad_input(const KernelRequest&, const ConvShape&) {
  return nullptr;
}

std::unique_ptr<BoundKernel> make_onednn_grad_weight(const KernelRequest&, const ConvShape&) {
  return nullptr;
}

}  // namespace poptorch::emulator
