// Pools of images with few channels: vectors are elements of a row. The rows of a window are joined
// first, then the elements of the joined row.
#pragma once

#include "emulator/kernels/sets/reduce/pool_window.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

class PoolRows {
 public:
  // The limit does not depend on the instruction set: sums have another order than by channels.
  static bool fits(const PoolWindow& w) { return w.channels < 8; }

  explicit PoolRows(const PoolWindow& w)
      : w_(w), c_(w.channels), width_(w.in[2] * c_), outputs_(w.out[2] * c_) {
    const int64_t taken = (w.out[2] - 1) * w.strides[2] + (w.kernel[2] - 1) * w.dilation[2] + 1;
    joined_ = std::max(w.in[2] + 2 * w.padding[2], taken) * c_;
    for (int64_t x = 0; x < w.out[2]; ++x) {
      const int64_t count = w.divisor != 0 ? 1 : w.count_along(2, x);
      counts_.insert(counts_.end(), c_, static_cast<float>(count));
    }
    counts_.insert(counts_.end(), kLanes, 1.0f);
  }
  int64_t rows() const { return w_.out[0] * w_.out[1]; }  // of an image
  int64_t outputs() const { return outputs_; }            // of a row
  int64_t scratch_bytes() const { return (joined_ + 3 * kLanes) * 4; }
  int64_t estimated_ns() const {
    return 40 + width_ * w_.kernel[0] * w_.kernel[1] / 6 + outputs_ * w_.kernel[2] / 2;
  }

  // Makes row `r` of an image's results.
  template <bool is_max>
  void join(int64_t r, const float* image, float* y, float* joined) const {
    const float start = is_max ? -INFINITY : 0.0f;
    std::fill_n(joined, joined_ + 3 * kLanes, start);
    float* inner = joined + w_.padding[2] * c_;
    each_row(r, [&](int64_t row) {
      const float* x = image + row;
      by_vectors({0, width_}, [&](int64_t i, auto get, auto put) {
        put(inner + i, pooled<is_max>(get(inner + i), get(x + i)));
      });
    });
    const int64_t step = w_.dilation[2] * c_;
    if (w_.strides[2] == 1) {
      join_along<is_max>(y, r,
                         [&](int64_t j, int64_t k) { return load<Widest>(joined + j + k * step); });
    } else if (w_.strides[2] == 2 && c_ == 1) {
      join_along<is_max>(y, r, [&](int64_t j, int64_t k) {
        const float* x = joined + 2 * j + k * step;
        return even_lanes(load<Widest>(x), load<Widest>(x + kLanes));
      });
    } else {
      join_elements<is_max>(y, r, joined);
    }
  }
  // Adds the gradients of row `r` of averages to those of an image.
  void add_average(int64_t r, const float* dy, float* dx, float* joined) const {
    std::fill_n(joined, joined_, 0.0f);
    const float rows = row_divisor(r);
    const int64_t step = w_.dilation[2] * c_;
    for (int64_t k = 0; k < w_.kernel[2]; ++k) {
      float* to = joined + k * step;
      if (w_.strides[2] == 1) {
        by_vectors({0, outputs_}, [&](int64_t j, auto get, auto put) {
          put(to + j, get(to + j) + get(dy + j) / (get(&counts_[j]) * spread<Widest>(rows)));
        });
        continue;
      }
      each_output([&](int64_t j, int64_t i) { to[i] += dy[j] / (counts_[j] * rows); });
    }
    const float* inner = joined + w_.padding[2] * c_;
    each_row(r, [&](int64_t row) {
      float* to = dx + row;
      by_vectors({0, width_},
                 [&](int64_t i, auto get, auto put) { put(to + i, get(to + i) + get(inner + i)); });
    });
  }
  // Adds the gradients of row `r` of maxima `y` to those of an image. `left` has the gradients of
  // the row, and is changed. Maxima that are NaN get none.
  void add_max(int64_t r, const float* image, const float* y, float* left, float* dx) const {
    each_row(r, [&](int64_t row) {
      for (int64_t k = 0; k < w_.kernel[2]; ++k) {
        const int64_t before = k * w_.dilation[2] - w_.padding[2], stride = w_.strides[2];
        const int64_t first = divide_up(std::max<int64_t>(-before, 0), stride);
        const int64_t last = w_.in[2] - 1 - before;
        const int64_t end = last < 0 ? 0 : std::min(w_.out[2], last / stride + 1);
        const int64_t at = row + before * c_;
        if (stride == 1 && end > first) {
          const int64_t j0 = first * c_;
          by_vectors({0, (end - first) * c_}, [&](int64_t i, auto get, auto put) {
            Widest rest = get(left + j0 + i);
            float* to = dx + at + j0 + i;
            put(to, get(to) + taken(get(image + at + j0 + i), get(y + j0 + i), rest));
            put(left + j0 + i, rest);
          });
          continue;
        }
        for (int64_t x = first; x < end; ++x) {
          for (int64_t j = x * c_, i = at + x * stride * c_; j < (x + 1) * c_; ++j, ++i) {
            const bool hit = image[i] == y[j];
            dx[i] += hit ? left[j] : 0.0f;
            left[j] = hit ? 0.0f : left[j];
          }
        }
      }
    });
  }

 private:
  // Calls use(offset) for the rows of the image in the windows of row `r` of the results.
  template <typename Use>
  [[gnu::always_inline]] void each_row(int64_t r, Use use) const {
    w_.each_along(0, r / w_.out[1], [&](int64_t z) {
      w_.each_along(1, r % w_.out[1], [&](int64_t y) { use((z * w_.in[1] + y) * width_); });
    });
  }
  // Calls use(element of a row of results, first element of its window in a joined row).
  template <typename Use>
  [[gnu::always_inline]] void each_output(Use use) const {
    for (int64_t x = 0; x < w_.out[2]; ++x) {
      for (int64_t c = 0; c < c_; ++c) use(x * c_ + c, x * w_.strides[2] * c_ + c);
    }
  }
  // Returns the part of the divisor that all results of a row have.
  float row_divisor(int64_t r) const {
    if (w_.divisor != 0) return static_cast<float>(w_.divisor);
    return static_cast<float>(w_.count_along(0, r / w_.out[1]) * w_.count_along(1, r % w_.out[1]));
  }
  // `at(j, k)` returns element k of the windows of results j, j + 1, ...
  template <bool is_max, typename At>
  [[gnu::always_inline]] void join_along(float* y, int64_t r, At at) const {
    const Widest rows = spread<Widest>(row_divisor(r));
    for (int64_t j = 0; j < outputs_; j += kLanes) {
      Widest all = at(j, 0);
      for (int64_t k = 1; k < w_.kernel[2]; ++k) all = pooled<is_max>(all, at(j, k));
      if (!is_max) all = all / (rows * load<Widest>(&counts_[j]));
      if (j + kLanes <= outputs_) {
        store(y + j, all);
      } else {
        store(y + j, first_lanes(outputs_ - j), all);
      }
    }
  }
  template <bool is_max>
  void join_elements(float* y, int64_t r, const float* joined) const {
    const float rows = row_divisor(r);
    const int64_t step = w_.dilation[2] * c_;
    each_output([&](int64_t j, int64_t i) {
      float all = joined[i];
      for (int64_t k = 1; k < w_.kernel[2]; ++k) {
        const float x = joined[i + k * step];
        if (is_max) {
          all = x > all || x != x ? x : all;
        } else {
          all += x;
        }
      }
      y[j] = is_max ? all : all / (rows * counts_[j]);
    });
  }

  const PoolWindow w_;
  int64_t c_, width_, outputs_, joined_;
  std::vector<float> counts_;  // of the elements of a result's windows along a row
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
