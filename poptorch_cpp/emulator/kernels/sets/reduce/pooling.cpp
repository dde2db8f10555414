// Max and average pools over channels-last memory.
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

// The same for few channels. Tasks split the rows of the results.
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
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
