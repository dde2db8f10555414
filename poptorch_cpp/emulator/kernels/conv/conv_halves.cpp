#include "emulator/kernels/conv/conv_halves.hpp"

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/conv/conv_half_blocks.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kHalfPixels = 96;         // of a block
constexpr int64_t kPartElements = 1 << 18;  // of a block's patches, which stay in L2
constexpr int64_t kHalfDepth = 256;         // of a sum at a time, as on floats
constexpr double kMostFlops = 3e7;          // of loops whose sums have eager torch's order

// A product of pixels or gathered patches, and packed weights, all of which stay halves.
class ConvHalves final : public ConvOfHalves {
 public:
  ConvHalves(const KernelRequest& request, const ConvShape& shape, const WeightView& weights)
      : ConvOfHalves(request, shape, weights),
        element_(element_of(request.inputs[0]->dtype)),
        pointwise_(shape.pointwise()) {
    by_parts_ = repays_parts(s_.out_pixels(), s_.group_out(), depth(), element_, element_);
    const int64_t most =
        by_parts_ ? std::clamp(kPartElements / depth(), kHalfPixels, kPartRows) : kHalfPixels;
    divide(most, most / 2);
    const int64_t pixels = std::min(most, s_.out_pixels());
    take(pointwise_ ? 0 : 2 * pixels * depth());
    held_at_ = take(4 * pixels * s_.group_out());
    bias_at_ = take(has_bias() ? 4 * s_.group_out() : 0);
    packing_at_ = take(4 * gemm_scratch_floats(pixels, depth()));
  }

 private:
  void pack(const uint16_t* weights, uint16_t* packed) const override {
    const int64_t panels = divide_up(s_.group_out(), kPanel);
    auto rows = [&](const uint16_t* from, int64_t count, uint16_t* to) {
      const OperandView view(from, weights_.matrix.row, weights_.matrix.col, element_);
      pack_panels(view, count, s_.group_out(), 0, panels, to, depth());
    };
    if (weights_.flipped) {
      for (int64_t tap = 0; tap < s_.taps(); ++tap) {
        rows(weights + (s_.taps() - 1 - tap) * weights_.tap_stride, s_.group_in(),
             packed + tap * s_.group_in() * kPanel);
      }
      return;
    }
    rows(weights, depth(), packed);
  }

  // Makes the patches of the pixels, unless the product reads them in place.
  void take_patches(const KernelArgs& args, int64_t group, Range pixels) const {
    if (pointwise_) return;
    reads_.read(input_of<uint16_t>(args, 0), pixels, group, 0, depth(),
                reinterpret_cast<uint16_t*>(args.scratch));
  }
  // Returns the patches of the pixels, from product p on.
  OperandView patches(const KernelArgs& args, int64_t group, int64_t pixel, int64_t p) const {
    if (!pointwise_) return OperandView(args.scratch, depth(), 1, element_).at(p);
    return OperandView(args.buffers[0], s_.in_channels, 1, element_)
        .at(pixel * s_.in_channels + group * s_.group_in() + p);
  }

  void block(const KernelArgs& args, int64_t group, Range pixels, Range cols) const override {
    take_patches(args, group, pixels);
    auto* packing = reinterpret_cast<float*>(args.scratch + packing_at_);
    auto* held = reinterpret_cast<float*>(args.scratch + held_at_);
    const uint16_t* packed = packed_of(args, group) + cols.begin * depth();
    const float* added = bias(args, channel(group, cols), cols.size(), bias_at_);
    const HalfEnding end = ending(args, group, pixels, cols);
    for (int64_t p = 0; p < depth(); p += kHalfDepth) {
      const int64_t count = std::min(kHalfDepth, depth() - p);
      const bool last = p + count == depth();
      gemm_packed(pixels.size(), cols.size(), count, patches(args, group, pixels.begin, p),
                  packed + p * kPanel, depth(), last ? added : nullptr, held, cols.size(), p > 0,
                  packing, element_, nullptr, last ? &end : nullptr, by_parts_);
    }
    run_chain(args, group, pixels, cols);
  }

  Element element_;
  bool pointwise_, by_parts_ = false;
  int64_t held_at_ = 0, bias_at_ = 0, packing_at_ = 0;
};

}  // namespace

int sums_of_halves(ir::DType dtype, const ConvShape& shape) {
  if (dtype != ir::DType::kF16) return 1;
  if (shape.groups == 1 || shape.depthwise()) {
    return shape.flops() <= kMostFlops ? kPartialSums : 1;
  }
  // The loops multiply whole panels, also for groups of fewer channels.
  const auto columns = static_cast<double>(shape.group_out());
  const auto panels = static_cast<double>(round_up(shape.group_out(), kPanel));
  return shape.flops() / columns * panels <= kMostFlops / 2 ? kPartialSums : 1;
}

bool has_one_half_type(const KernelRequest& request) {
  const ir::DType dtype = request.inputs[0]->dtype, made = request.outputs[0].dtype;
  const Epilogue epilogue(request);
  const bool ends_in_halves = made == ir::DType::kF32 && epilogue.is_half_ending() &&
                              request.epilogue->ending()->element == element_of(dtype);
  return ir::is_half(dtype) && (made == dtype || ends_in_halves) &&
         std::all_of(request.inputs.begin(), request.inputs.end(),
                     [&](const auto& t) { return !t || t->dtype == dtype; });
}

std::unique_ptr<BoundKernel> make_conv_halves(const KernelRequest& request, const ConvShape& shape,
                                              const WeightView& weights) {
  if (!has_one_half_type(request)) return nullptr;
  if (!weights.flipped && sums_of_halves(request.outputs[0].dtype, shape) == kPartialSums) {
    return make_ordered_conv(request, shape, weights);
  }
  return std::make_unique<ConvHalves>(request, shape, weights);
}

}  // namespace poptorch::emulator
