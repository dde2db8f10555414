// Convolutions of float16 with the sums of eager torch (conv_halves.hpp).
#include <array>

#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/conv/conv_halves.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kMostBlockPixels = 96, kLeastBlockPixels = 24;  // of a block
constexpr int64_t kBlockFloats = 12288;  // of a block's patches: they stay in cache

// A product of patches as floats and packed weights, which stay halves.
class OrderedConv final : public BoundKernel {
 public:
  OrderedConv(const KernelRequest& request, const ConvShape& shape, const WeightView& weights)
      : s_(shape),
        reads_(shape),
        weights_(weights),
        end_(request),
        bias_(request.inputs.size() > 2 && request.inputs[2]),
        block_pixels_(std::clamp(kBlockFloats / s_.depth(), kLeastBlockPixels, kMostBlockPixels)) {
    const auto ns = static_cast<int64_t>(s_.flops() / 60);
    ns_ = ns + end_.estimated_ns(s_.out_pixels() * s_.out_channels);
    const int64_t wanted = parts_for(ns, 48);
    pixel_parts_ = std::clamp<int64_t>(s_.out_pixels() / 48, 1, wanted);
    col_parts_ =
        std::clamp<int64_t>(s_.group_out() / 128, 1, divide_up(wanted, pixel_parts_ * s_.groups));
    order_products();
    const int64_t elements = std::min(block_pixels_, s_.out_pixels()) * s_.depth();
    halves_at_ = round_up(4 * elements, 64);
    bias_at_ = halves_at_ + (s_.pointwise() ? 0 : round_up(2 * elements, 64));
    own_bytes_ = bias_at_ + (bias_ ? round_up(4 * s_.group_out(), 64) : 0);
  }
  int phases() const override { return 2; }
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? s_.groups : pixel_parts_ * col_parts_ * s_.groups);
  }
  int64_t scratch_bytes() const override { return own_bytes_ + end_.scratch_bytes(); }
  int64_t workspace_bytes() const override { return 2 * group_elements() * s_.groups; }
  std::vector<int> prepared_operands() const override { return {1}; }
  int64_t estimated_ns() const override { return ns_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) return pack(args, task);
    const int64_t col_part = task % col_parts_, rest = task / col_parts_;
    const int64_t group = rest % s_.groups, pixel_part = rest / s_.groups;
    const Range pixels = part_of(s_.out_pixels(), pixel_parts_, pixel_part);
    const Range cols = part_of(s_.group_out(), col_parts_, col_part, kPanel);
    for (int64_t p = pixels.begin; p < pixels.end; p += block_pixels_) {
      const Range some{p, std::min(p + block_pixels_, pixels.end)};
      take_patches(args, group, some);
      multiply(args, group, some, cols);
    }
  }

 private:
  int64_t group_elements() const { return packed_floats(s_.depth(), s_.group_out()); }

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

  void pack(const KernelArgs& args, int64_t group) const {
    auto* packed = reinterpret_cast<uint16_t*>(args.workspace) + group * group_elements();
    const uint16_t* weights = input_of<uint16_t>(args, 1) + group * weights_.group_stride;
    const int64_t panels = divide_up(s_.group_out(), kPanel);
    for (int64_t i = 0; i < s_.depth(); ++i) {
      const OperandView row(weights + places_[i] * weights_.matrix.row, weights_.matrix.row,
                            weights_.matrix.col, Element::kHalf);
      pack_panels(row, 1, s_.group_out(), 0, panels, packed + i * kPanel, s_.depth());
    }
  }

  void widen(const uint16_t* from, float* to, int64_t n) const {
    MicroArgs args;
    args.src[0] = from;
    args.dst[0] = to;
    load_(args, n);
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

  const float* bias(const KernelArgs& args, int64_t channel, int64_t count) const {
    if (!bias_) return nullptr;
    auto* held = reinterpret_cast<float*>(args.scratch + bias_at_);
    widen(input_of<uint16_t>(args, 2) + channel, held, count);
    return held;
  }

  void multiply(const KernelArgs& args, int64_t group, Range pixels, Range cols) const {
    const int64_t channel = group * s_.group_out() + cols.begin;
    multiply_({.a = reinterpret_cast<const float*>(args.scratch),
               .a_row = s_.depth(),
               .places = places_.data(),
               .ends = ends_.data(),
               .sums = kPartialSums,
               .packed = reinterpret_cast<const uint16_t*>(args.workspace) +
                         group * group_elements() + cols.begin * s_.depth(),
               .depth = s_.depth(),
               .bias = bias(args, channel, cols.size())},
              pixels.size(), cols.size(),
              end_.ending(args, pixels.begin, channel, s_.out_channels));
    if (!end_.has_chain()) return;
    end_.run_chain(args,
                   {.first = pixels.begin * s_.out_channels + channel,
                    .rows = pixels.size(),
                    .row_step = s_.out_channels,
                    .cols = cols.size()},
                   args.scratch + own_bytes_);
  }

  ConvShape s_;
  Patches reads_;
  WeightView weights_;
  HalfEnd end_;
  bool bias_;
  int64_t block_pixels_;
  std::vector<int32_t> places_;  // of each sum's products in a patch
  std::array<int64_t, kPartialSums> ends_{};
  int64_t ns_ = 0, pixel_parts_ = 1, col_parts_ = 1;
  int64_t halves_at_ = 0, bias_at_ = 0, own_bytes_ = 0;
  const MicroFn load_ = load_fn(ir::DType::kF16);
  const OrderedProduct multiply_ = kernel_set().ordered_sums;
};

}  // namespace

std::unique_ptr<BoundKernel> make_ordered_conv(const KernelRequest& request, const ConvShape& shape,
                                               const WeightView& weights) {
  return std::make_unique<OrderedConv>(request, shape, weights);
}

}  // namespace poptorch::emulator
