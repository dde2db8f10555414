#include "emulator/kernels/conv/conv_half_partials.hpp"

#include "emulator/kernels/base/gemm.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kPixelsOfBlock = 48;   // of a block
constexpr int64_t kPartialColumns = 64;  // of a weight's gradient that a task computes

// Reads, for a pixel of x, what the result's pixels at each kernel position have: the patch of the
// input's gradient. Positions between the steps of the kernel, or outside, read as zeros.
class BackwardPatches {
 public:
  explicit BackwardPatches(const ConvShape& shape) : s_(shape) {}

  void read(const float* y, int64_t pixel, int64_t group, float* out) const {
    const int64_t row = pixel / s_.in[2], plane = row / s_.in[1], n = plane / s_.in[0];
    const std::array<int64_t, 3> at{plane % s_.in[0], row % s_.in[1], pixel % s_.in[2]};
    const int64_t channels = s_.group_out();
    for (int64_t tap = 0; tap < s_.taps(); ++tap, out += channels) {
      const std::array<int64_t, 3> k{tap / (s_.kernel[1] * s_.kernel[2]),
                                     tap / s_.kernel[2] % s_.kernel[1], tap % s_.kernel[2]};
      int64_t from = n;
      bool inside = true;
      for (int d = 0; d < 3; ++d) {
        const int64_t scaled = at[d] + s_.padding[d] - k[d] * s_.dilation[d];
        const int64_t place = scaled / s_.strides[d];
        inside &= scaled >= 0 && scaled % s_.strides[d] == 0 && place < s_.out[d];
        from = from * s_.out[d] + place;
      }
      if (inside) {
        std::copy_n(y + from * s_.out_channels + group * channels, channels, out);
      } else {
        std::fill_n(out, channels, 0.0f);
      }
    }
  }

 private:
  ConvShape s_;
};

// The product of patches and packed weights: the result, or with `backward` the input's gradient.
class HalfPartialsConv final : public BoundKernel {
 public:
  HalfPartialsConv(const ConvShape& shape, bool backward, int bias, int output)
      : s_(shape),
        backward_(backward),
        bias_(bias),
        output_(output),
        depth_(s_.taps() * (backward ? s_.group_out() : s_.group_in())),
        columns_(backward ? s_.group_in() : s_.group_out()),
        channels_(columns_ * s_.groups),
        pixels_(backward ? s_.in_pixels() : s_.out_pixels()),
        blocks_(divide_up(pixels_, kPixelsOfBlock)),
        forward_(shape),
        behind_(shape) {}
  int phases() const override { return 2; }
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? s_.groups : blocks_ * s_.groups);
  }
  int64_t scratch_bytes() const override { return 4 * kPixelsOfBlock * depth_; }
  int64_t workspace_bytes() const override { return 4 * group_floats() * s_.groups; }
  std::vector<int> prepared_operands() const override { return {1}; }
  int64_t estimated_ns() const override { return static_cast<int64_t>(s_.flops() / 25); }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) return pack(args, task);
    const int64_t group = task % s_.groups, first = task / s_.groups * kPixelsOfBlock;
    const int64_t count = std::min(kPixelsOfBlock, pixels_ - first);
    float* patches = reinterpret_cast<float*>(args.scratch);
    const float* x = input_of<float>(args, 0);
    if (!backward_) forward_.read(x, {first, first + count}, group, 0, depth_, patches);
    for (int64_t i = 0; backward_ && i < count; ++i) {
      behind_.read(x, first + i, group, patches + i * depth_);
    }
    float* y = buffer_of<float>(args, output_) + first * channels_ + group * columns_;
    gemm_half_partials(count, columns_, depth_, MatrixView{patches, depth_, 1}, packed(args, group),
                       depth_, y, channels_, false, nullptr);
    if (bias_ < 0) return;
    const float* bias = input_of<float>(args, bias_) + group * columns_;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t c = 0; c < columns_; ++c) y[i * channels_ + c] += bias[c];
    }
  }

 private:
  int64_t group_floats() const { return packed_floats(depth_, columns_); }
  float* packed(const KernelArgs& args, int64_t group) const {
    return reinterpret_cast<float*>(args.workspace) + group * group_floats();
  }
  // Weights are [out, kernel position, in of the group].
  void pack(const KernelArgs& args, int64_t group) const {
    const float* w = input_of<float>(args, 1) + group * s_.group_out() * s_.depth();
    const int64_t panels = divide_up(columns_, kPanel);
    if (!backward_) {
      return pack_panels(MatrixView{w, 1, s_.depth()}, depth_, columns_, 0, panels,
                         packed(args, group), depth_);
    }
    for (int64_t tap = 0; tap < s_.taps(); ++tap) {
      pack_panels(MatrixView{w + tap * s_.group_in(), s_.depth(), 1}, s_.group_out(), columns_, 0,
                  panels, packed(args, group) + tap * s_.group_out() * kPanel, depth_);
    }
  }

  ConvShape s_;
  bool backward_;
  int bias_, output_;
  int64_t depth_, columns_, channels_, pixels_, blocks_;
  Patches forward_;
  BackwardPatches behind_;
};

// A task computes some columns of a group's gradient, over all pixels in turn.
class HalfPartialsGradWeight final : public BoundKernel {
 public:
  explicit HalfPartialsGradWeight(const ConvShape& shape) : s_(shape), patches_(shape) {}
  int tasks(int) const override {
    return static_cast<int>(divide_up(s_.depth(), kPartialColumns) * s_.groups);
  }
  int64_t scratch_bytes() const override {
    return 4 * (2 * kPixelsOfBlock * kPartialColumns +
                gemm_scratch_floats(s_.group_out(), kPixelsOfBlock));
  }
  int64_t estimated_ns() const override { return static_cast<int64_t>(s_.flops() / 25); }

  void run(const KernelArgs& args, int, int task) const override {
    static_assert(kPixelsOfBlock % reference::kHalfPartials == 0);
    const int64_t group = task % s_.groups, begin = task / s_.groups * kPartialColumns;
    const int64_t width = std::min(kPartialColumns, s_.depth() - begin);
    float* patches = reinterpret_cast<float*>(args.scratch);
    float *packed = patches + kPixelsOfBlock * kPartialColumns,
          *packing = packed + kPixelsOfBlock * kPartialColumns;
    const float *x = input_of<float>(args, 0), *dy = input_of<float>(args, 1);
    float* dw = buffer_of<float>(args, 2) + group * s_.group_out() * s_.depth() + begin;
    for (int64_t p = 0; p < s_.out_pixels(); p += kPixelsOfBlock) {
      const int64_t count = std::min(kPixelsOfBlock, s_.out_pixels() - p);
      patches_.read(x, {p, p + count}, group, begin, begin + width, patches);
      pack_panels(MatrixView{patches, width, 1}, count, width, 0, divide_up(width, kPanel), packed,
                  count);
      const MatrixView a{dy + p * s_.out_channels + group * s_.group_out(), 1, s_.out_channels};
      gemm_half_partials(s_.group_out(), width, count, a, packed, count, dw, s_.depth(), p > 0,
                         packing);
    }
  }

 private:
  ConvShape s_;
  Patches patches_;
};

}  // namespace

std::unique_ptr<BoundKernel> make_half_partials_conv(const KernelRequest& request,
                                                     const ConvShape& shape) {
  if (request.epilogue) return nullptr;
  const bool bias = request.inputs.size() > 2 && request.inputs[2];
  return std::make_unique<HalfPartialsConv>(shape, false, bias ? 2 : -1,
                                            static_cast<int>(request.inputs.size()));
}

std::unique_ptr<BoundKernel> make_half_partials_grad_input(const ConvShape& shape) {
  return std::make_unique<HalfPartialsConv>(shape, true, -1, 2);
}

std::unique_ptr<BoundKernel> make_half_partials_grad_weight(const ConvShape& shape) {
  return std::make_unique<HalfPartialsGradWeight>(shape);
}

}  // namespace poptorch::emulator
