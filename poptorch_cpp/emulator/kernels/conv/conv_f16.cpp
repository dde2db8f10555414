// Eager torch has no float16 convolution on most hosts. It multiplies matrices of patches, in the
// order (channel, kernel position), and adds products to four sums in turn; the products beyond a
// multiple of four go to the first. Products of two halves are exact in float32, so equal orders
// give equal sums, and rounding gives the same halves.
#include "emulator/kernels/conv/conv_f16.hpp"

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/conv/conv_depthwise.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kBlockPixels = 32;  // of a block
constexpr int kPartialSums = 4;       // of an output
constexpr double kMostFlops = 3e7;    // beyond it, the kernels of float32 are faster

class F16Conv final : public BoundKernel {
 public:
  F16Conv(const KernelRequest& request, const ConvShape& shape)
      : s_(shape),
        reads_(shape),
        epilogue_(request),
        bias_(request.inputs.size() > 2 && request.inputs[2]),
        output_(static_cast<int>(request.inputs.size())) {
    ns_ = static_cast<int64_t>(s_.flops() / 30) +
          epilogue_.estimated_ns(s_.out_pixels() * s_.out_channels);
    parts_ = std::clamp<int64_t>(s_.out_pixels() / kBlockPixels, 1, parts_for(ns_, 48));
    order_products();
  }
  int phases() const override { return 2; }
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? s_.groups : parts_ * s_.groups);
  }
  int64_t scratch_bytes() const override { return own_bytes() + epilogue_.scratch_bytes(); }
  int64_t workspace_bytes() const override { return 4 * group_floats() * s_.groups; }
  std::vector<int> prepared_operands() const override { return {1}; }
  int64_t estimated_ns() const override { return ns_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) return pack(args, task);
    const int64_t group = task % s_.groups;
    const Range pixels = part_of(s_.out_pixels(), parts_, task / s_.groups);
    for (int64_t p = pixels.begin; p < pixels.end; p += kBlockPixels) {
      block(args, group, {p, std::min(p + kBlockPixels, pixels.end)});
    }
  }

 private:
  int64_t depth() const { return s_.depth(); }
  int64_t group_floats() const { return packed_floats(depth(), s_.group_out()); }
  int64_t own_bytes() const {
    return round_up(
        4 * (depth() * (kBlockPixels + 1) + kPartialSums * kBlockPixels * s_.group_out()), 64);
  }

  // Lists the products of each sum one after another. Patches and weights have the order (kernel
  // position, channel).
  void order_products() {
    const int64_t whole = depth() / kPartialSums * kPartialSums;
    for (int64_t sum = 0; sum < kPartialSums; ++sum) {
      begin_[sum] = static_cast<int64_t>(places_.size());
      for (int64_t k = sum; k < whole; k += kPartialSums) add_product(k);
      for (int64_t k = whole; sum == 0 && k < depth(); ++k) add_product(k);
    }
    begin_[kPartialSums] = depth();
  }
  void add_product(int64_t k) { places_.push_back(k % s_.taps() * s_.group_in() + k / s_.taps()); }

  // Copies the channels of a pixel in the order of places_.
  void order_channels(const float* x, float* to) const {
    static_assert(kPartialSums == 4);
    const int64_t whole = depth() / kPartialSums, rest = depth() % kPartialSums;
    float *first = to, *second = to + begin_[1], *third = to + begin_[2], *last = to + begin_[3];
#pragma GCC ivdep
    for (int64_t k = 0; k < whole; ++k) {
      first[k] = x[4 * k];
      second[k] = x[4 * k + 1];
      third[k] = x[4 * k + 2];
      last[k] = x[4 * k + 3];
    }
    for (int64_t k = 0; k < rest; ++k) first[whole + k] = x[4 * whole + k];
  }

  void pack(const KernelArgs& args, int64_t group) const {
    float* packed = reinterpret_cast<float*>(args.workspace) + group * group_floats();
    const float* weights = input_of<float>(args, 1) + group * s_.group_out() * depth();
    for (int64_t i = 0; i < depth(); ++i) {
      const MatrixView row{weights + places_[i], 1, depth()};
      pack_panels(row, 1, s_.group_out(), 0, divide_up(s_.group_out(), kPanel), packed + i * kPanel,
                  depth());
    }
  }

  void block(const KernelArgs& args, int64_t group, Range pixels) const {
    float* patch = reinterpret_cast<float*>(args.scratch);
    float* ordered = patch + depth();
    float* sums = ordered + depth() * kBlockPixels;
    const float* x = input_of<float>(args, 0);
    for (int64_t i = 0; i < pixels.size(); ++i) {
      const int64_t pixel = pixels.begin + i;
      float* to = ordered + i * depth();
      if (s_.pointwise()) {
        order_channels(x + pixel * s_.in_channels + group * s_.group_in(), to);
        continue;
      }
      reads_.read(x, pixel, group, 0, depth(), patch);
      for (int64_t k = 0; k < depth(); ++k) to[k] = patch[places_[k]];
    }
    const int64_t cols = s_.group_out();
    const float* packed = reinterpret_cast<const float*>(args.workspace) + group * group_floats();
    for (int64_t sum = 0; sum < kPartialSums; ++sum) {
      float* to = sums + sum * kBlockPixels * cols;
      const int64_t count = begin_[sum + 1] - begin_[sum];
      if (count == 0) {
        std::fill(to, to + pixels.size() * cols, 0.0f);
        continue;
      }
      gemm_packed(pixels.size(), cols, count, {ordered + begin_[sum], depth(), 1},
                  packed + begin_[sum] * kPanel, depth(), nullptr, to, cols, false, nullptr);
    }
    const int64_t first = pixels.begin * s_.out_channels + group * cols;
    float* y = buffer_of<float>(args, output_) + first;
    const float* bias = bias_ ? input_of<float>(args, 2) + group * cols : nullptr;
    for (int64_t i = 0; i < pixels.size(); ++i) {
      for (int64_t c = 0; c < cols; ++c) {
        float total = sums[i * cols + c];
        for (int64_t sum = 1; sum < kPartialSums; ++sum)
          total += sums[(sum * kBlockPixels + i) * cols + c];
        y[i * s_.out_channels + c] = bias ? bias[c] + total : total;
      }
    }
    if (!epilogue_) return;
    epilogue_.run(
        args, {.first = first, .rows = pixels.size(), .row_step = s_.out_channels, .cols = cols},
        args.scratch + own_bytes());
  }

  ConvShape s_;
  Patches reads_;
  Epilogue epilogue_;
  bool bias_;
  int output_;
  std::vector<int64_t> places_;  // of each sum's products in a patch
  std::array<int64_t, kPartialSums + 1> begin_{};
  int64_t ns_ = 0, parts_ = 1;
};

}  // namespace

std::unique_ptr<BoundKernel> make_f16_conv(const KernelRequest& request, const ConvShape& shape) {
  if (shape.flops() > kMostFlops) return nullptr;
  if (shape.depthwise()) return make_depthwise(request, shape, kPartialSums);
  return std::make_unique<F16Conv>(request, shape);
}

}  // namespace poptorch::emulator
