// Convolutions of halves that read and write halves, and sum in float32.
//
// Eager torch has no float16 convolution on most hosts. It multiplies matrices of patches, in the
// order (channel, kernel position), and adds products to four sums in turn; the products beyond a
// multiple of four go to the first. Products of two halves are exact in float32, so equal orders
// give equal sums, and rounding gives the same halves. Small convolutions of float16 sum like this.
#pragma once

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/conv/conv_gemm.hpp"
#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

constexpr int kPartialSums = 4;  // of an output, in eager torch's order

// Returns the sums of each output of a convolution of halves: kPartialSums or 1.
int sums_of_halves(ir::DType dtype, const ConvShape& shape);

// Returns nullptr unless has_one_half_type(request). With flipped weights
// it has one sum, and bfloat16 needs an even number of input channels in a group.
std::unique_ptr<BoundKernel> make_conv_halves(const KernelRequest& request, const ConvShape& shape,
                                              const WeightView& weights);

// The same for a convolution of float16 with kPartialSums sums, which make_conv_halves chooses.
std::unique_ptr<BoundKernel> make_ordered_conv(const KernelRequest& request, const ConvShape& shape,
                                               const WeightView& weights);

// The same for a convolution whose channels each have their own kernel. Returns nullptr also when
// the kernel has more positions than the loops support.
std::unique_ptr<BoundKernel> make_depthwise_halves(const KernelRequest& request,
                                                   const ConvShape& shape);

// Returns whether all operands have the same half type, and so has the result or what an ending
// makes of it.
bool has_one_half_type(const KernelRequest& request);

// The end of a block of sums of a kernel whose result is of halves: they are rounded, and the chain
// on them runs.
class HalfEnd {
 public:
  explicit HalfEnd(const KernelRequest& request)
      : epilogue_(request),
        output_(static_cast<int>(request.inputs.size())),
        element_(element_of(request.inputs[0]->dtype)) {}
  int64_t scratch_bytes() const { return epilogue_.scratch_bytes(); }
  int64_t estimated_ns(int64_t elements) const { return epilogue_.estimated_ns(elements); }
  // Returns the ending of the block that begins at row i and column j of the result, which has
  // `columns` of them.
  HalfEnding ending(const KernelArgs& args, int64_t i, int64_t j, int64_t columns) const {
    if (epilogue_.is_half_ending()) return epilogue_.half_ending(args, i, j, columns);
    HalfEnding plain;
    plain.to = buffer_of<uint16_t>(args, output_);
    plain.row_step = columns;
    plain.element = element_;
    return plain.from(i, j);
  }
  // Returns whether the chain is not part of the ending.
  bool has_chain() const { return epilogue_ && !epilogue_.is_half_ending(); }
  void run_chain(const KernelArgs& args, const TileBlock& block, std::byte* scratch) const {
    epilogue_.run(args, block, scratch);
  }

 private:
  Epilogue epilogue_;
  int output_;
  Element element_;
};

}  // namespace poptorch::emulator
