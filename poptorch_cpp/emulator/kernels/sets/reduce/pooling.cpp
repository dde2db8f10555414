// Max and average pools and their gradients over channels-last memory. In a gradient, one task
// scatters an image's block of channels, in the order of windows.
#include <array>
#include <cmath>

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using ir::Shape;

struct Window {
  int64_t batch = 1, channels = 1;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, strides{1, 1, 1},
      padding{0, 0, 0}, dilation{1, 1, 1};
  bool include_pad = true;
  int64_t divisor = 0;

  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  // Calls f(input pixel of the image) for the elements of the window of output pixel `p`.
  template <typename F>
  void each(int64_t p, F f) const {
    const std::array<int64_t, 3> at = {p / (out[2] * out[1]), p / out[2] % out[1], p % out[2]};
    for (int64_t a = 0; a < kernel[0]; ++a) {
      const int64_t z = at[0] * strides[0] - padding[0] + a * dilation[0];
      if (z < 0 || z >= in[0]) continue;
      for (int64_t b = 0; b < kernel[1]; ++b) {
        const int64_t y = at[1] * strides[1] - padding[1] + b * dilation[1];
        if (y < 0 || y >= in[1]) continue;
        for (int64_t c = 0; c < kernel[2]; ++c) {
          const int64_t x = at[2] * strides[2] - padding[2] + c * dilation[2];
          if (x >= 0 && x < in[2]) f((z * in[1] + y) * in[2] + x);
        }
      }
    }
  }
  // Returns the divisor of the sum over the window of output pixel `p`.
  float count(int64_t p) const {
    if (divisor != 0) return static_cast<float>(divisor);
    const std::array<int64_t, 3> at = {p / (out[2] * out[1]), p / out[2] % out[1], p % out[2]};
    int64_t size = 1;
    for (int d = 0; d < 3; ++d) {
      const int64_t begin = at[d] * strides[d] - padding[d];
      const int64_t end = std::min(begin + kernel[d], in[d] + padding[d]);
      size *= include_pad ? end - begin : std::min(end, in[d]) - std::max<int64_t>(begin, 0);
    }
    return static_cast<float>(size);
  }
};

Window window_of(const KernelRequest& request, const Shape& x, const Shape& y) {
  Window w;
  w.batch = x[0];
  w.channels = x[1];
  const size_t spatial = x.size() - 2;
  const bool dilated = request.op->find_attr("dilation") != nullptr;
  for (size_t d = 0; d < spatial; ++d) {
    const size_t at = 3 - spatial + d;
    w.in[at] = x[2 + d];
    w.out[at] = y[2 + d];
    w.kernel[at] = request.attr<ir::Ints>("kernel")[d];
    w.strides[at] = request.attr<ir::Ints>("strides")[d];
    w.padding[at] = request.attr<ir::Ints>("padding")[d];
    if (dilated) w.dilation[at] = request.attr<ir::Ints>("dilation")[d];
  }
  if (!dilated) {
    w.include_pad = request.attr<bool>("count_include_pad");
    w.divisor = request.attr<int64_t>("divisor");
  }
  return w;
}

// Output pixels are independent: tasks split all of them.
template <bool is_max>
class Pool final : public BoundKernel {
 public:
  Pool(const KernelRequest& request, Window window)
      : w_(window), epilogue_(request), pixels_(w_.batch * w_.out_pixels()) {
    ns_ = pixels_ * (10 + w_.taps() * w_.channels / 6);
    parts_ = parts_for(ns_, pixels_);
  }
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t scratch_bytes() const override { return epilogue_.scratch_bytes(); }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range pixels = part_of(pixels_, parts_, task);
    const int64_t c = w_.channels;
    for (int64_t p = pixels.begin; p < pixels.end; ++p) {
      const int64_t image = p / w_.out_pixels(), at = p % w_.out_pixels();
      const float* x = input_of<float>(args, 0) + image * w_.in_pixels() * c;
      float* y = buffer_of<float>(args, 1) + p * c;
      std::fill_n(y, c, is_max ? -INFINITY : 0.0f);
      w_.each(at, [&](int64_t pixel) {
        const float* v = x + pixel * c;
#pragma GCC ivdep
        for (int64_t i = 0; i < c; ++i) {
          y[i] = is_max ? (v[i] > y[i] || v[i] != v[i] ? v[i] : y[i]) : y[i] + v[i];
        }
      });
      if (!is_max) {
        const float count = w_.count(at);
        for (int64_t i = 0; i < c; ++i) y[i] /= count;
      }
    }
    if (epilogue_) {
      epilogue_.run(args, {.first = pixels.begin * c, .cols = pixels.size() * c}, args.scratch);
    }
  }

 private:
  Window w_;
  Epilogue epilogue_;
  int64_t pixels_, ns_, parts_;
};

// A task owns an image's block of channels.
class PoolGrad : public BoundKernel {
 public:
  explicit PoolGrad(Window window) : w_(window) {
    ns_ = w_.batch * w_.out_pixels() * (10 + w_.taps() * w_.channels / 4);
    blocks_ = std::clamp<int64_t>(w_.channels / 16, 1, divide_up(parts_for(ns_, 32), w_.batch));
  }
  int tasks(int) const override { return static_cast<int>(w_.batch * blocks_); }
  int64_t estimated_ns() const override { return ns_; }

 protected:
  struct Part {
    int64_t image;
    Range channels;
  };
  Part part(int task) const {
    return {task / blocks_, part_of(w_.channels, blocks_, task % blocks_, 16)};
  }
  // Sets the part's channels to zero in every pixel of the image.
  float* cleared(float* dx, const Part& part) const {
    dx += part.image * w_.in_pixels() * w_.channels + part.channels.begin;
    for (int64_t p = 0; p < w_.in_pixels(); ++p) {
      std::fill_n(dx + p * w_.channels, part.channels.size(), 0.0f);
    }
    return dx;
  }
  Window w_;
  int64_t ns_, blocks_;
};

class MaxPoolGrad final : public PoolGrad {
 public:
  using PoolGrad::PoolGrad;
  void run(const KernelArgs& args, int, int task) const override {
    const Part mine = part(task);
    float* dx = cleared(buffer_of<float>(args, 3), mine);
    const int64_t in = mine.image * w_.in_pixels() * w_.channels + mine.channels.begin;
    const int64_t out = mine.image * w_.out_pixels() * w_.channels + mine.channels.begin;
    const float* x = input_of<float>(args, 0) + in;
    constexpr int64_t kBlock = 64;
    for (int64_t p = 0; p < w_.out_pixels(); ++p) {
      for (int64_t c = 0; c < mine.channels.size(); c += kBlock) {
        const int64_t n = std::min(kBlock, mine.channels.size() - c);
        const float* y = input_of<float>(args, 1) + out + p * w_.channels + c;
        const float* dy = input_of<float>(args, 2) + out + p * w_.channels + c;
        float left[kBlock];  // the gradient that no element has taken yet
        std::copy_n(dy, n, left);
        w_.each(p, [&](int64_t pixel) {
          const float* v = x + pixel * w_.channels + c;
          float* to = dx + pixel * w_.channels + c;
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            const bool hit = v[i] == y[i];
            to[i] += hit ? left[i] : 0.0f;
            left[i] = hit ? 0.0f : left[i];
          }
        });
        for (int64_t i = 0; i < n; ++i) {
          if (y[i] == y[i]) continue;
          int64_t last = -1;  // the last nan takes it
          w_.each(p, [&](int64_t pixel) {
            const float v = x[pixel * w_.channels + c + i];
            if (v != v) last = pixel;
          });
          if (last >= 0) dx[last * w_.channels + c + i] += dy[i];
        }
      }
    }
  }
};

class AvgPoolGrad final : public PoolGrad {
 public:
  using PoolGrad::PoolGrad;
  void run(const KernelArgs& args, int, int task) const override {
    const Part mine = part(task);
    float* dx = cleared(buffer_of<float>(args, 1), mine);
    const int64_t out = mine.image * w_.out_pixels() * w_.channels + mine.channels.begin;
    const int64_t n = mine.channels.size();
    for (int64_t p = 0; p < w_.out_pixels(); ++p) {
      const float* dy = input_of<float>(args, 0) + out + p * w_.channels;
      const float count = w_.count(p);
      w_.each(p, [&](int64_t pixel) {
        float* to = dx + pixel * w_.channels;
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] += dy[i] / count;
      });
    }
  }
};

void choose_channels_last(KernelRequest& request) {
  for (Layout& layout : request.input_layouts) layout.kind = Layout::Kind::kChannelsLast;
  for (Layout& layout : request.output_layouts) layout.kind = Layout::Kind::kChannelsLast;
}

bool fits(const KernelRequest& request) {
  bool good = request.outputs[0].elements() > 0;
  for (const auto& type : request.inputs) good &= type->dtype == ir::DType::kF32;
  for (const Layout& l : request.input_layouts) good &= l.kind == Layout::Kind::kChannelsLast;
  return good && request.output_layouts[0].kind == Layout::Kind::kChannelsLast;
}

template <bool is_max>
std::unique_ptr<BoundKernel> bind_pool(const KernelRequest& request) {
  if (!fits(request)) return nullptr;
  return std::make_unique<Pool<is_max>>(
      request, window_of(request, request.inputs[0]->shape, request.outputs[0].shape));
}
template <typename Grad>
std::unique_ptr<BoundKernel> bind_grad(const KernelRequest& request) {
  if (!fits(request)) return nullptr;
  const Shape& y = request.inputs.size() == 3 ? request.inputs[1]->shape : request.inputs[0]->shape;
  return std::make_unique<Grad>(window_of(request, request.outputs[0].shape, y));
}

}  // namespace

void add_pool_kernels(KernelTable& table) {
  table.add({.op = "max_pool",
             .bind = bind_floats<bind_pool<true>>,
             .choose_layouts = choose_channels_last,
             .takes_epilogue = true});
  table.add({.op = "avg_pool",
             .bind = bind_floats<bind_pool<false>>,
             .choose_layouts = choose_channels_last,
             .takes_epilogue = true});
  table.add({.op = "max_pool_grad",
             .bind = bind_floats<bind_grad<MaxPoolGrad>>,
             .choose_layouts = choose_channels_last});
  table.add({.op = "avg_pool_grad",
             .bind = bind_floats<bind_grad<AvgPoolGrad>>,
             .choose_layouts = choose_channels_last});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
