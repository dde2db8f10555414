#include "emulator/kernels/conv/conv_halves.hpp"

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/tile_ops.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kHalfPixels = 96;         // of a block
constexpr int64_t kPartElements = 1 << 18;  // of a block's patches, which stay in L2
constexpr int64_t kHalfDepth = 256;         // of a sum at a time, as on floats
constexpr double kMostFlops = 3e7;          // of a convolution whose sums have eager torch's order

// A product of pixels or gathered patches, and packed weights, all of which stay halves.
class ConvHalves final : public BoundKernel {
 public:
  ConvHalves(const KernelRequest& request, const ConvShape& shape, const WeightView& weights)
      : s_(shape),
        reads_(shape),
        weights_(weights),
        end_(request),
        dtype_(request.inputs[0]->dtype),
        element_(element_of(dtype_)),
        bias_(request.inputs.size() > 2 && request.inputs[2]),
        pointwise_(shape.pointwise()) {
    const auto ns = static_cast<int64_t>(s_.flops() / 60);
    ns_ = ns + end_.estimated_ns(s_.out_pixels() * s_.out_channels);
    const int64_t wanted = parts_for(ns, 48);
    by_parts_ = repays_parts(s_.out_pixels(), s_.group_out(), depth(), element_, element_);
    if (by_parts_) {
      block_pixels_ = std::clamp(kPartElements / depth(), kHalfPixels, kPartRows);
    }
    pixel_parts_ = std::clamp<int64_t>(s_.out_pixels() / (block_pixels_ / 2), 1, wanted);
    col_parts_ =
        std::clamp<int64_t>(s_.group_out() / 128, 1, divide_up(wanted, pixel_parts_ * s_.groups));
    place_scratch();
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
      block(args, group, some, cols);
    }
  }

 private:
  int64_t depth() const { return s_.depth(); }
  int64_t group_elements() const { return packed_floats(depth(), s_.group_out()); }
  void place_scratch() {
    auto take = [this](int64_t bytes) {
      return std::exchange(own_bytes_, own_bytes_ + round_up(bytes, 64));
    };
    const int64_t pixels = std::min(block_pixels_, s_.out_pixels());
    take(pointwise_ ? 0 : 2 * pixels * depth());
    held_at_ = take(4 * pixels * s_.group_out());
    bias_at_ = take(bias_ ? 4 * s_.group_out() : 0);
    packing_at_ = take(4 * gemm_scratch_floats(pixels, depth()));
  }
  void widen(const uint16_t* from, float* to, int64_t n) const {
    MicroArgs args;
    args.src[0] = from;
    args.dst[0] = to;
    load_(args, n);
  }

  void pack(const KernelArgs& args, int64_t group) const {
    auto* packed = reinterpret_cast<uint16_t*>(args.workspace) + group * group_elements();
    const uint16_t* weights = input_of<uint16_t>(args, 1) + group * weights_.group_stride;
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

  const float* bias(const KernelArgs& args, int64_t channel, int64_t count) const {
    if (!bias_) return nullptr;
    auto* held = reinterpret_cast<float*>(args.scratch + bias_at_);
    widen(input_of<uint16_t>(args, 2) + channel, held, count);
    return held;
  }

  void block(const KernelArgs& args, int64_t group, Range pixels, Range cols) const {
    auto* packing = reinterpret_cast<float*>(args.scratch + packing_at_);
    auto* held = reinterpret_cast<float*>(args.scratch + held_at_);
    const auto* packed = reinterpret_cast<const uint16_t*>(args.workspace) +
                         group * group_elements() + cols.begin * depth();
    const int64_t channel = group * s_.group_out() + cols.begin;
    const float* added = bias(args, channel, cols.size());
    const HalfEnding ending = end_.ending(args, pixels.begin, channel, s_.out_channels);
    for (int64_t p = 0; p < depth(); p += kHalfDepth) {
      const int64_t count = std::min(kHalfDepth, depth() - p);
      const bool last = p + count == depth();
      gemm_packed(pixels.size(), cols.size(), count, patches(args, group, pixels.begin, p),
                  packed + p * kPanel, depth(), last ? added : nullptr, held, cols.size(), p > 0,
                  packing, element_, nullptr, last ? &ending : nullptr, by_parts_);
    }
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
  ir::DType dtype_;
  Element element_;
  bool bias_, pointwise_, by_parts_ = false;
  int64_t ns_ = 0, pixel_parts_ = 1, col_parts_ = 1, block_pixels_ = kHalfPixels;
  int64_t held_at_ = 0, bias_at_ = 0, packing_at_ = 0;
  int64_t own_bytes_ = 0;
  const MicroFn load_ = load_fn(dtype_);
};

}  // namespace

int sums_of_halves(ir::DType dtype, const ConvShape& shape) {
  return dtype == ir::DType::kF16 && shape.flops() <= kMostFlops ? kPartialSums : 1;
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
