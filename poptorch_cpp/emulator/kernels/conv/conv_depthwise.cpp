#include "emulator/kernels/conv/conv_depthwise.hpp"

#include <algorithm>

#include "emulator/kernels/base/transpose_block.hpp"
#include "emulator/kernels/conv/depthwise_taps.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

// Finds sums of floats with the loops of the host's instruction set.
class FloatDepthwise : public Depthwise {
 protected:
  using Depthwise::Depthwise;
  DepthwiseRun run_of(const float* x, const float* weights, const float* bias, const Taps& taps,
                      int64_t step) const {
    return {x, weights, bias, taps.from, taps.with, taps.count, c_, step * c_, width_};
  }

  const DepthwisePixels sums_ = kernel_set().depthwise_pixels;
};

class Forward final : public FloatDepthwise {
 public:
  Forward(const KernelRequest& request, const ConvShape& shape)
      : FloatDepthwise(shape),
        bias_(request.inputs.size() > 2 && request.inputs[2] ? 2 : -1),
        y_(static_cast<int>(request.inputs.size())),
        epilogue_(request) {
    parts_ = parts_for(ns_, s_.out_pixels());
  }
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(parts_); }
  int64_t workspace_bytes() const override { return 4 * c_ * weight_rows(); }
  std::vector<int> prepared_operands() const override { return {1}; }
  int64_t scratch_bytes() const override { return epilogue_.scratch_bytes(); }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* weights = reinterpret_cast<float*>(args.workspace);
    if (phase == 0) return transpose_weights(input_of<float>(args, 1), weights);
    const float* x = input_of<float>(args, 0);
    float* out = buffer_of<float>(args, y_);
    const Range pixels = part_of(s_.out_pixels(), parts_, task);
    const float* bias = bias_ < 0 ? nullptr : input_of<float>(args, bias_);
    auto along = [&](int d, int64_t at, int64_t k) { return input_of_tap(d, at, k); };
    int64_t first = pixels.begin;  // of those that the epilogue has not seen
    auto see = [&](int64_t end) {
      const int64_t made = (end - first) * c_;
      if (!epilogue_ || (made < Epilogue::kTogether && end < pixels.end)) return;
      epilogue_.run(args, {.first = first * c_, .cols = made}, args.scratch);
      first = end;
    };
    const int64_t together = std::max<int64_t>(Epilogue::kTogether / c_, 1);
    for_runs(pixels, s_.out, s_.in, s_.strides[2], along,
             [&](int64_t p, int64_t count, const Taps& taps) {
               DepthwiseRun run = run_of(x, weights, bias, taps, s_.strides[2]);
               if (epilogue_.is_ending()) {
                 const Ending ending = epilogue_.ending(args, p, 0, c_);
                 return sums_(run, count, nullptr, &ending);
               }
               for (int64_t done = 0; done < count;
                    done += together, run.x += together * run.step) {
                 const int64_t n = std::min(together, count - done);
                 sums_(run, n, out + (p + done) * c_, nullptr);
                 see(p + done + n);
               }
             });
  }

 private:
  int bias_, y_;
  Epilogue epilogue_;
  int64_t parts_;
};

// Sums for each input pixel over the output pixels that read it.
class GradInput final : public FloatDepthwise {
 public:
  explicit GradInput(const ConvShape& shape)
      : FloatDepthwise(shape), parts_(parts_for(ns_, s_.in_pixels())) {}
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(parts_); }
  int64_t workspace_bytes() const override { return 4 * c_ * weight_rows(); }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* weights = reinterpret_cast<float*>(args.workspace);
    if (phase == 0) return exchange_channels(input_of<float>(args, 1), weights);
    const float* dy = input_of<float>(args, 0);
    float* dx = buffer_of<float>(args, 2);
    const Range pixels = part_of(s_.in_pixels(), parts_, task);
    auto output_of_tap = [&](int d, int64_t in, int64_t k) {
      const int64_t steps = in + s_.padding[d] - k * s_.dilation[d];
      return steps % s_.strides[d] == 0 ? steps / s_.strides[d] : -1;
    };
    const int64_t step = s_.strides[2] == 1 ? 1 : 0;
    for_runs(pixels, s_.in, s_.out, step, output_of_tap,
             [&](int64_t p, int64_t count, const Taps& taps) {
               sums_(run_of(dy, weights, nullptr, taps, step), count, dx + p * c_, nullptr);
             });
  }

 private:
  // Stores the weights as [tap, output channel of the group][input channel].
  void exchange_channels(const float* w, float* out) const {
    for (int64_t c = 0; c < c_; ++c) {
      const int64_t first = c / width_ * width_;  // of the group
      for (int64_t tap = 0; tap < s_.taps(); ++tap) {
        for (int64_t j = 0; j < width_; ++j) {
          out[(tap * width_ + j) * c_ + c] =
              w[((first + j) * s_.taps() + tap) * width_ + c - first];
        }
      }
    }
  }

  int64_t parts_;
};

// The workspace holds one sum per image; a second phase adds the images' sums in order.
class GradWeight final : public Depthwise {
 public:
  using Depthwise::Depthwise;
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? static_cast<int>(s_.batch) : 1; }
  int64_t workspace_bytes() const override { return 4 * c_ * weight_rows() * s_.batch; }
  void run(const KernelArgs& args, int phase, int task) const override {
    const int64_t size = c_ * weight_rows();
    auto* sums = reinterpret_cast<float*>(args.workspace);
    if (phase == 0) {
      std::fill_n(sums + task * size, size, 0.0f);
      const float *x = input_of<float>(args, 0), *dy = input_of<float>(args, 1);
      const int64_t rows = s_.out[0] * s_.out[1];
      for (int64_t row = 0; row < rows; ++row) {
        add_row(x + task * in_image() * c_, dy + (task * rows + row) * s_.out[2] * c_, row,
                sums + task * size);
      }
      return;
    }
    for (int64_t n = 1; n < s_.batch; ++n) {
      for (int64_t i = 0; i < size; ++i) sums[i] += sums[n * size + i];
    }
    transpose_matrix(sums, c_, buffer_of<float>(args, 2), weight_rows(), weight_rows(), c_);
  }

 private:
  // Adds the products of a row of output pixels with the input pixels that each tap reads.
  void add_row(const float* x, const float* dy, int64_t row, float* sums) const {
    int64_t tap = 0;
    for (int64_t kd = 0; kd < s_.kernel[0]; ++kd) {
      const int64_t z = input_of_tap(0, row / s_.out[1], kd);
      for (int64_t kh = 0; kh < s_.kernel[1]; ++kh) {
        const int64_t y = input_of_tap(1, row % s_.out[1], kh);
        for (int64_t kw = 0; kw < s_.kernel[2]; ++kw, ++tap) {
          if (z < 0 || z >= s_.in[0] || y < 0 || y >= s_.in[1]) continue;
          const int64_t offset = input_of_tap(2, 0, kw), step = s_.strides[2];
          const int64_t first = offset < 0 ? divide_up(-offset, step) : 0;
          const int64_t end = std::min(s_.out[2], divide_up(s_.in[2] - offset, step));
          if (first >= end) continue;
          const int64_t from = (z * s_.in[1] + y) * s_.in[2] + offset + first * step;
          add_row_products_(x + from * c_, step * c_, dy + first * c_, c_, end - first, c_, width_,
                            sums + tap * width_ * c_);
        }
      }
    }
  }

  const AddRowProducts add_row_products_ = kernel_set().add_row_products;
};

}  // namespace

std::unique_ptr<BoundKernel> make_depthwise(const KernelRequest& request, const ConvShape& shape) {
  if (shape.taps() > kMaxTaps) return nullptr;
  return std::make_unique<Forward>(request, shape);
}
std::unique_ptr<BoundKernel> make_depthwise_grad_input(const ConvShape& shape) {
  if (shape.taps() > kMaxTaps) return nullptr;
  return std::make_unique<GradInput>(shape);
}
std::unique_ptr<BoundKernel> make_depthwise_grad_weight(const ConvShape& shape) {
  return std::make_unique<GradWeight>(shape);
}

}  // namespace poptorch::emulator
