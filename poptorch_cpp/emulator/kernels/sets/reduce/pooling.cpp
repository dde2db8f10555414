// Max and average pools and their gradients over channels-last memory. In a gradient, a task
// scatters an image's block of channels, in the order of windows.
#include <cmath>

#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/reduce/pool_kernels.hpp"
#include "emulator/kernels/sets/reduce/pool_rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// Output pixels are independent: tasks split all of them.
template <bool is_max>
class Pool final : public BoundKernel {
 public:
  Pool(const KernelRequest& request, const PoolWindow& window)
      : w_(window), taps_(w_), epilogue_(request), pixels_(w_.batch * w_.out_pixels()) {
    ns_ = pixels_ * (10 + w_.taps() * w_.channels / 6);
    parts_ = parts_for(ns_, pixels_);
  }
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t scratch_bytes() const override {
    return std::max(epilogue_.scratch_bytes(), taps_.scratch_bytes());
  }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range pixels = part_of(pixels_, parts_, task);
    const int64_t c = w_.channels;
    for (int64_t p = pixels.begin; p < pixels.end; ++p) {
      const int64_t image = p / w_.out_pixels(), at = p % w_.out_pixels();
      const float* x = input_of<float>(args, 0) + image * w_.in_pixels() * c;
      float* y = buffer_of<float>(args, 1) + p * c;
      const float divisor = is_max ? 1.0f : taps_.divisor(at);
      taps_.of_window(at, args.scratch, [&](int64_t first, const int64_t* offsets, int64_t count) {
        join(x + first, offsets, count, y, divisor);
      });
    }
    if (epilogue_) {
      epilogue_.run(args, {.first = pixels.begin * c, .cols = pixels.size() * c}, args.scratch);
    }
  }

 private:
  static constexpr int kVectors = 4;  // that advance together

  void join(const float* x, const int64_t* offsets, int64_t count, float* y, float divisor) const {
    const Widest start = spread<Widest>(is_max ? -INFINITY : 0.0f), by = spread<Widest>(divisor);
    int64_t c = 0;
    for (; c + kVectors * kLanes <= w_.channels; c += kVectors * kLanes) {
      Widest all[kVectors] = {start, start, start, start};
      for (int64_t i = 0; i < count; ++i) {
        const float* v = x + offsets[i] + c;
        for (int k = 0; k < kVectors; ++k) {
          all[k] = pooled<is_max>(all[k], load<Widest>(v + k * kLanes));
        }
      }
      for (int k = 0; k < kVectors; ++k) store(y + c + k * kLanes, is_max ? all[k] : all[k] / by);
    }
    by_vectors({c, w_.channels}, [&](int64_t at, auto get, auto put) {
      Widest all = start;
      for (int64_t i = 0; i < count; ++i) all = pooled<is_max>(all, get(x + offsets[i] + at));
      put(y + at, is_max ? all : all / by);
    });
  }

  PoolWindow w_;
  PoolTaps taps_;
  Epilogue epilogue_;
  int64_t pixels_, ns_, parts_;
};

// Pools images of few channels. Tasks split the rows of the results.
template <bool is_max>
class PoolOfRows final : public BoundKernel {
 public:
  PoolOfRows(const KernelRequest& request, const PoolWindow& window)
      : w_(window), rows_(w_), epilogue_(request), all_(w_.batch * rows_.rows()) {
    ns_ = all_ * rows_.estimated_ns();
    parts_ = parts_for(ns_, all_);
  }
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t scratch_bytes() const override {
    return std::max(epilogue_.scratch_bytes(), rows_.scratch_bytes());
  }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range mine = part_of(all_, parts_, task);
    const int64_t n = rows_.outputs();
    for (int64_t r = mine.begin; r < mine.end; ++r) {
      const float* image =
          input_of<float>(args, 0) + r / rows_.rows() * w_.in_pixels() * w_.channels;
      rows_.template join<is_max>(r % rows_.rows(), image, buffer_of<float>(args, 1) + r * n,
                                  reinterpret_cast<float*>(args.scratch));
    }
    if (epilogue_) {
      epilogue_.run(args, {.first = mine.begin * n, .cols = mine.size() * n}, args.scratch);
    }
  }

 private:
  PoolWindow w_;
  PoolRows rows_;
  Epilogue epilogue_;
  int64_t all_, ns_, parts_;
};

template <bool is_max>
std::unique_ptr<BoundKernel> bind_pool(const KernelRequest& request) {
  if (!fits_pool(request)) return nullptr;
  const PoolWindow window = window_of(request, request.inputs[0]->shape, request.outputs[0].shape);
  if (PoolRows::fits(window)) return std::make_unique<PoolOfRows<is_max>>(request, window);
  return std::make_unique<Pool<is_max>>(request, window);
}

// A task owns a block of channels of an image. Few channels are one block.
class PoolGrad : public BoundKernel {
 public:
  explicit PoolGrad(const PoolWindow& window)
      : w_(window), taps_(w_), rows_(w_), few_(PoolRows::fits(w_)) {
    ns_ = w_.batch * w_.out_pixels() * (10 + w_.taps() * w_.channels / 4);
    blocks_ = std::clamp<int64_t>(w_.channels / 16, 1, divide_up(parts_for(ns_, 32), w_.batch));
  }
  int tasks(int) const override { return static_cast<int>(w_.batch * blocks_); }
  int64_t scratch_bytes() const override {
    return std::max(taps_.scratch_bytes(), rows_.scratch_bytes());
  }
  int64_t estimated_ns() const override { return ns_; }

 protected:
  struct Part {
    int64_t image;
    Range channels;
  };
  Part part(int task) const {
    return {task / blocks_, part_of(w_.channels, blocks_, task % blocks_, 16)};
  }
  int64_t in_image() const { return w_.in_pixels() * w_.channels; }
  int64_t out_image() const { return w_.out_pixels() * w_.channels; }
  // Sets the part's channels to zero in every pixel of the image.
  float* cleared(float* dx, const Part& part) const {
    dx += part.image * in_image();
    for (int64_t p = 0; p < w_.in_pixels(); ++p) {
      std::fill_n(dx + p * w_.channels + part.channels.begin, part.channels.size(), 0.0f);
    }
    return dx;
  }
  PoolWindow w_;
  PoolTaps taps_;
  PoolRows rows_;
  bool few_;
  int64_t ns_, blocks_;
};

class MaxPoolGrad final : public PoolGrad {
 public:
  using PoolGrad::PoolGrad;
  void run(const KernelArgs& args, int, int task) const override {
    const Part mine = part(task);
    const Image image{input_of<float>(args, 0) + mine.image * in_image(),
                      input_of<float>(args, 1) + mine.image * out_image(),
                      input_of<float>(args, 2) + mine.image * out_image(),
                      cleared(buffer_of<float>(args, 3), mine)};
    if (few_) return run_rows(image, reinterpret_cast<float*>(args.scratch));
    for (int64_t p = 0; p < w_.out_pixels(); ++p) {
      const float* y = image.y + p * w_.channels;
      const float* dy = image.dy + p * w_.channels;
      taps_.of_window(p, args.scratch, [&](int64_t first, const int64_t* offsets, int64_t count) {
        by_vectors(mine.channels, [&](int64_t c, auto get, auto put) {
          const float* x = image.x + first + c;
          float* dx = image.dx + first + c;
          const Widest result = get(y + c);
          Widest left = get(dy + c);
          for (int64_t i = 0; i < count; ++i) {
            float* to = dx + offsets[i];
            put(to, get(to) + taken(get(x + offsets[i]), result, left));
          }
        });
        for (int64_t c = mine.channels.begin; c < mine.channels.end; ++c) {
          if (y[c] != y[c]) give_to_nan(image, first + c, offsets, count, dy[c]);
        }
      });
    }
  }

 private:
  struct Image {
    const float *x, *y, *dy;
    float* dx;
  };

  // Adds dy to the gradient of the last NaN of a window.
  static void give_to_nan(const Image& image, int64_t first, const int64_t* offsets, int64_t count,
                          float dy) {
    for (int64_t i = count - 1; i >= 0; --i) {
      const int64_t at = first + offsets[i];
      if (image.x[at] == image.x[at]) continue;
      image.dx[at] += dy;
      return;
    }
  }
  void run_rows(const Image& image, float* scratch) const {
    const int64_t n = rows_.outputs();
    for (int64_t r = 0; r < rows_.rows(); ++r) {
      const float* y = image.y + r * n;
      std::copy_n(image.dy + r * n, n, scratch);
      rows_.add_max(r, image.x, y, scratch, image.dx);
      for (int64_t j = 0; j < n; ++j) {
        if (y[j] == y[j]) continue;
        const int64_t c = j % w_.channels, p = r * w_.out[2] + j / w_.channels;
        auto* room = reinterpret_cast<std::byte*>(scratch);
        taps_.of_window(p, room, [&](int64_t first, const int64_t* offsets, int64_t count) {
          give_to_nan(image, first + c, offsets, count, image.dy[r * n + j]);
        });
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
    const float* dy = input_of<float>(args, 0) + mine.image * out_image();
    if (few_) {
      for (int64_t r = 0; r < rows_.rows(); ++r) {
        rows_.add_average(r, dy + r * rows_.outputs(), dx, reinterpret_cast<float*>(args.scratch));
      }
      return;
    }
    for (int64_t p = 0; p < w_.out_pixels(); ++p) {
      const float* from = dy + p * w_.channels;
      const Widest divisor = spread<Widest>(taps_.divisor(p));
      taps_.of_window(p, args.scratch, [&](int64_t first, const int64_t* offsets, int64_t count) {
        by_vectors(mine.channels, [&](int64_t c, auto get, auto put) {
          const Widest each = get(from + c) / divisor;
          for (int64_t i = 0; i < count; ++i) {
            float* to = dx + first + offsets[i] + c;
            put(to, get(to) + each);
          }
        });
      });
    }
  }
};

template <typename Grad>
std::unique_ptr<BoundKernel> bind_grad(const KernelRequest& request) {
  if (!fits_pool(request)) return nullptr;
  const ir::Shape& y =
      request.inputs.size() == 3 ? request.inputs[1]->shape : request.inputs[0]->shape;
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
