// Convolutions of float16 with the sums of eager torch (conv_halves.hpp).
#include <array>

#include "emulator/kernels/conv/conv_half_blocks.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kMostBlockPixels = 96, kLeastBlockPixels = 24;  // of a block
constexpr int64_t kTaskPixels = 48;                               // at least
constexpr int64_t kBlockFloats = 12288;  // of a block's patches: they stay in cache

// A product of patches as floats and packed weights, which stay halves.
class OrderedConv final : public ConvOfHalves {
 public:
  OrderedConv(const KernelRequest& request, const ConvShape& shape, const WeightView& weights)
      : ConvOfHalves(request, shape, weights) {
    divide(std::clamp(kBlockFloats / depth(), kLeastBlockPixels, kMostBlockPixels), kTaskPixels);
    order_products();
    const int64_t elements = std::min(block_pixels(), s_.out_pixels()) * depth();
    take(4 * elements);
    halves_at_ = take(s_.pointwise() ? 0 : 2 * elements);
    bias_at_ = take(has_bias() ? 4 * s_.group_out() : 0);
  }

 private:
  // Lists the products of each sum one after another. Patches and weights have the order (kernel
  // position, channel).
  void order_products() {
    const int64_t depth = s_.depth(), whole = depth / kPartialSums * kPartialSums;
    auto add = [this](int64_t k) {
      places_.push_back(static_cast<int32_t>(k % s_.taps() * s_.group_in() + k / s_.taps()));
    };
    for (int64_t sum = 0; sum < kPartialSums; ++sum) {
      for (int64_t k = sum; k < whole; k += kPartialSums) add(k);
      for (int64_t k = whole; sum == 0 && k < depth; ++k) add(k);
      ends_[sum] = static_cast<int64_t>(places_.size());
    }
  }

  void pack(const uint16_t* weights, uint16_t* packed) const override {
    const int64_t panels = divide_up(s_.group_out(), kPanel);
    for (int64_t i = 0; i < depth(); ++i) {
      const OperandView row(weights + places_[i] * weights_.matrix.row, weights_.matrix.row,
                            weights_.matrix.col, Element::kHalf);
      pack_panels(row, 1, s_.group_out(), 0, panels, packed + i * kPanel, depth());
    }
  }

  void take_patches(const KernelArgs& args, int64_t group, Range pixels) const {
    const uint16_t* x = input_of<uint16_t>(args, 0);
    auto* floats = reinterpret_cast<float*>(args.scratch);
    if (!s_.pointwise()) {
      auto* halves = reinterpret_cast<uint16_t*>(args.scratch + halves_at_);
      reads_.read(x, pixels, group, 0, s_.depth(), halves);
      return widen(halves, floats, pixels.size() * s_.depth());
    }
    x += pixels.begin * s_.in_channels + group * s_.depth();
    if (s_.groups == 1) return widen(x, floats, pixels.size() * s_.depth());
    for (int64_t i = 0; i < pixels.size(); ++i) {
      widen(x + i * s_.in_channels, floats + i * s_.depth(), s_.depth());
    }
  }

  void block(const KernelArgs& args, int64_t group, Range pixels, Range cols) const override {
    take_patches(args, group, pixels);
    multiply_({.a = reinterpret_cast<const float*>(args.scratch),
               .a_row = depth(),
               .places = places_.data(),
               .ends = ends_.data(),
               .sums = kPartialSums,
               .packed = packed_of(args, group) + cols.begin * depth(),
               .depth = depth(),
               .bias = bias(args, channel(group, cols), cols.size(), bias_at_)},
              pixels.size(), cols.size(), ending(args, group, pixels, cols));
    run_chain(args, group, pixels, cols);
  }

  std::vector<int32_t> places_;  // of each sum's products in a patch
  std::array<int64_t, kPartialSums> ends_{};
  int64_t halves_at_ = 0, bias_at_ = 0;
  const OrderedProduct multiply_ = kernel_set().ordered_sums;
};

}  // namespace

std::unique_ptr<BoundKernel> make_ordered_conv(const KernelRequest& request, const ConvShape& shape,
                                               const WeightView& weights) {
  return std::make_unique<OrderedConv>(request, shape, weights);
}

}  // namespace poptorch::emulator
