#include "emulator/kernels/conv/conv_depthwise.hpp"

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

// Weights are stored as [channel][tap]; the loops need [tap][channel], which the workspace holds.
class Depthwise : public BoundKernel {
 public:
  explicit Depthwise(const ConvShape& shape) : s_(shape), c_(shape.out_channels) {
    ns_ = static_cast<int64_t>(s_.flops() / 12);
  }
  int64_t estimated_ns() const override { return ns_; }

 protected:
  // Calls f(tap, input pixel) for the taps of output pixel `pixel` that are inside the input.
  template <typename F>
  void for_taps(int64_t pixel, F f) const {
    const int64_t w = pixel % s_.out[2], h = pixel / s_.out[2] % s_.out[1];
    const int64_t d = pixel / (s_.out[2] * s_.out[1]) % s_.out[0];
    const int64_t n = pixel / (s_.out[2] * s_.out[1] * s_.out[0]);
    int64_t tap = 0;
    for (int64_t kd = 0; kd < s_.kernel[0]; ++kd) {
      const int64_t z = d * s_.strides[0] - s_.padding[0] + kd * s_.dilation[0];
      for (int64_t kh = 0; kh < s_.kernel[1]; ++kh) {
        const int64_t y = h * s_.strides[1] - s_.padding[1] + kh * s_.dilation[1];
        for (int64_t kw = 0; kw < s_.kernel[2]; ++kw, ++tap) {
          const int64_t x = w * s_.strides[2] - s_.padding[2] + kw * s_.dilation[2];
          if (z < 0 || z >= s_.in[0] || y < 0 || y >= s_.in[1] || x < 0 || x >= s_.in[2]) continue;
          f(tap, ((n * s_.in[0] + z) * s_.in[1] + y) * s_.in[2] + x);
        }
      }
    }
  }
  void transpose_weights(const float* w, float* out) const {
    for (int64_t c = 0; c < c_; ++c) {
      for (int64_t t = 0; t < s_.taps(); ++t) out[t * c_ + c] = w[c * s_.taps() + t];
    }
  }

  ConvShape s_;
  int64_t c_, ns_ = 0;
  decltype(KernelSet::add_products) add_products_ = kernel_set().add_products;
};

class Forward final : public Depthwise {
 public:
  Forward(const KernelRequest& request, const ConvShape& shape)
      : Depthwise(shape),
        bias_(request.inputs.size() > 2 && request.inputs[2] ? 2 : -1),
        y_(static_cast<int>(request.inputs.size())),
        epilogue_(request) {
    parts_ = parts_for(ns_, s_.out_pixels());
  }
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(parts_); }
  int64_t workspace_bytes() const override { return 4 * c_ * s_.taps(); }
  std::vector<int> prepared_operands() const override { return {1}; }
  int64_t scratch_bytes() const override { return epilogue_.scratch_bytes(); }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* weights = reinterpret_cast<float*>(args.workspace);
    if (phase == 0) return transpose_weights(input_of<float>(args, 1), weights);
    const float* x = input_of<float>(args, 0);
    float* out = buffer_of<float>(args, y_);
    const Range pixels = part_of(s_.out_pixels(), parts_, task);
    const float* bias = bias_ < 0 ? nullptr : input_of<float>(args, bias_);
    for (int64_t p = pixels.begin; p < pixels.end; ++p) {
      // The taps in use are kept as offsets of x and of the weights.
      int64_t from[kMaxTaps], with[kMaxTaps];
      int taps = 0;
      for_taps(p, [&](int64_t tap, int64_t pixel) {
        from[taps] = pixel * c_;
        with[taps++] = tap * c_;
      });
      sums_(x, weights, bias, from, with, taps, c_, out + p * c_);
      if (epilogue_) epilogue_.run(args, {.first = p * c_, .cols = c_}, args.scratch);
    }
  }
  static bool takes(const ConvShape& shape) { return shape.taps() <= kMaxTaps; }

 private:
  static constexpr int kMaxTaps = 128;
  const DepthwisePixel sums_ = kernel_set().depthwise_pixel;
  int bias_, y_;
  Epilogue epilogue_;
  int64_t parts_;
};

// One task scatters into an image, in the order of output pixels.
class GradInput final : public Depthwise {
 public:
  using Depthwise::Depthwise;
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(s_.batch); }
  int64_t workspace_bytes() const override { return 4 * c_ * s_.taps(); }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* weights = reinterpret_cast<float*>(args.workspace);
    if (phase == 0) return transpose_weights(input_of<float>(args, 1), weights);
    const float* dy = input_of<float>(args, 0);
    float* dx = buffer_of<float>(args, 2);
    const int64_t in = s_.in_pixels() / s_.batch, out = s_.out_pixels() / s_.batch;
    std::fill_n(dx + task * in * c_, in * c_, 0.0f);
    for (int64_t p = task * out; p < (task + 1) * out; ++p) {
      for_taps(p, [&](int64_t tap, int64_t pixel) {
        add_products_(dy + p * c_, weights + tap * c_, dx + pixel * c_, c_);
      });
    }
  }
};

// The workspace holds one sum per image; a second phase adds the images' sums in order.
class GradWeight final : public Depthwise {
 public:
  using Depthwise::Depthwise;
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? static_cast<int>(s_.batch) : 1; }
  int64_t workspace_bytes() const override { return 4 * c_ * s_.taps() * s_.batch; }
  void run(const KernelArgs& args, int phase, int task) const override {
    const int64_t size = c_ * s_.taps();
    auto* sums = reinterpret_cast<float*>(args.workspace);
    if (phase == 0) {
      const float *x = input_of<float>(args, 0), *dy = input_of<float>(args, 1);
      float* mine = sums + task * size;
      std::fill_n(mine, size, 0.0f);
      const int64_t out = s_.out_pixels() / s_.batch;
      for (int64_t p = task * out; p < (task + 1) * out; ++p) {
        for_taps(p, [&](int64_t tap, int64_t pixel) {
          add_products_(x + pixel * c_, dy + p * c_, mine + tap * c_, c_);
        });
      }
      return;
    }
    float* dw = buffer_of<float>(args, 2);
    for (int64_t n = 1; n < s_.batch; ++n) {
      for (int64_t i = 0; i < size; ++i) sums[i] += sums[n * size + i];
    }
    for (int64_t c = 0; c < c_; ++c) {
      for (int64_t t = 0; t < s_.taps(); ++t) dw[c * s_.taps() + t] = sums[t * c_ + c];
    }
  }
};

}  // namespace

std::unique_ptr<BoundKernel> make_depthwise(const KernelRequest& request, const ConvShape& shape) {
  if (!Forward::takes(shape)) return nullptr;
  return std::make_unique<Forward>(request, shape);
}
std::unique_ptr<BoundKernel> make_depthwise_grad_input(const ConvShape& shape) {
  return std::make_unique<GradInput>(shape);
}
std::unique_ptr<BoundKernel> make_depthwise_grad_weight(const ConvShape& shape) {
  return std::make_unique<GradWeight>(shape);
}

}  // namespace poptorch::emulator
