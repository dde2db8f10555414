// The windows of pools over channels-last memory.
#pragma once

#include <array>
#include <vector>

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

struct PoolWindow {
  using Sizes = std::array<int64_t, 3>;
  int64_t batch = 1, channels = 1;
  Sizes in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, strides{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
  bool include_pad = true;
  int64_t divisor = 0;

  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  // If windows have one element along the last dimension, its elements become channels.
  void join_last_to_channels() {
    for (int i = 0; i < 3 && is_single(2); ++i) {
      channels *= in[2];
      for (Sizes* sizes : {&in, &out, &kernel, &strides, &padding, &dilation}) {
        *sizes = {sizes == &padding ? 0 : 1, (*sizes)[0], (*sizes)[1]};
      }
    }
  }
  // Returns whether all elements of dimension d of a window that begins at `begin` are in the
  // image.
  bool is_inside(int d, int64_t begin) const {
    return begin >= 0 && begin + (kernel[d] - 1) * dilation[d] < in[d];
  }
  int64_t begin(int d, int64_t at) const { return at * strides[d] - padding[d]; }
  // Calls use(i) for the elements of dimension d in the window of output element `at`.
  template <typename Use>
  [[gnu::always_inline]] void each_along(int d, int64_t at, Use use) const {
    const int64_t first = begin(d, at);
    for (int64_t k = 0; k < kernel[d]; ++k) {
      const int64_t i = first + k * dilation[d];
      if (i >= 0 && i < in[d]) use(i);
    }
  }
  // Returns the elements of dimension d that an average of output element `at` counts.
  int64_t count_along(int d, int64_t at) const {
    const int64_t first = begin(d, at), end = std::min(first + kernel[d], in[d] + padding[d]);
    return include_pad ? end - first : std::min(end, in[d]) - std::max<int64_t>(first, 0);
  }

 private:
  bool is_single(int d) const {
    return kernel[d] == 1 && strides[d] == 1 && padding[d] == 0 && in[d] == out[d];
  }
};

// The elements of windows, as offsets of their first channels.
class PoolTaps {
 public:
  explicit PoolTaps(const PoolWindow& w) : w_(w) {
    for (int64_t a = 0; a < w.kernel[0]; ++a) {
      for (int64_t b = 0; b < w.kernel[1]; ++b) {
        for (int64_t c = 0; c < w.kernel[2]; ++c) {
          whole_.push_back(offset(a * w.dilation[0], b * w.dilation[1], c * w.dilation[2]));
        }
      }
    }
  }
  int64_t scratch_bytes() const { return static_cast<int64_t>(whole_.size() * sizeof(int64_t)); }

  // Calls use(first, offsets, count) for the window of output pixel `p`: the elements of the image
  // are at first + offsets[i]. `scratch` has scratch_bytes().
  template <typename Use>
  [[gnu::always_inline]] void of_window(int64_t p, std::byte* scratch, Use use) const {
    const auto [z, y, x] = pixel(p);
    const int64_t a = w_.begin(0, z), b = w_.begin(1, y), c = w_.begin(2, x);
    const int64_t* offsets = whole_.data();
    auto count = static_cast<int64_t>(whole_.size());
    int64_t first = offset(a, b, c);
    if (!w_.is_inside(0, a) || !w_.is_inside(1, b) || !w_.is_inside(2, c)) {
      first = 0;
      offsets = reinterpret_cast<int64_t*>(scratch);
      count = inside({z, y, x}, reinterpret_cast<int64_t*>(scratch));
    }
    use(first, offsets, count);
  }
  // Returns the divisor of the sum over the window of output pixel `p`.
  float divisor(int64_t p) const {
    if (w_.divisor != 0) return static_cast<float>(w_.divisor);
    const auto [z, y, x] = pixel(p);
    return static_cast<float>(w_.count_along(0, z) * w_.count_along(1, y) * w_.count_along(2, x));
  }

 private:
  int64_t offset(int64_t z, int64_t y, int64_t x) const {
    return ((z * w_.in[1] + y) * w_.in[2] + x) * w_.channels;
  }
  PoolWindow::Sizes pixel(int64_t p) const {
    return {p / (w_.out[2] * w_.out[1]), p / w_.out[2] % w_.out[1], p % w_.out[2]};
  }
  int64_t inside(PoolWindow::Sizes at, int64_t* offsets) const {
    int64_t count = 0;
    w_.each_along(0, at[0], [&](int64_t z) {
      w_.each_along(1, at[1], [&](int64_t y) {
        w_.each_along(2, at[2], [&](int64_t x) { offsets[count++] = offset(z, y, x); });
      });
    });
    return count;
  }

  const PoolWindow w_;
  std::vector<int64_t> whole_;  // of a window inside the image, from its first element
};

// Calls use(i, get, put) for vectors of the elements of a range. `get` loads and `put` stores the
// lanes of a vector: the last one may have fewer.
template <typename Use>
[[gnu::always_inline]] inline void by_vectors(Range range, Use use) {
  int64_t i = range.begin;
  for (; i + kLanes <= range.end; i += kLanes) {
    use(i, [](const float* x) { return load<Widest>(x); }, [](float* y, Widest v) { store(y, v); });
  }
  if (i == range.end) return;
  const Mask rest = first_lanes(range.end - i);
  use(
      i, [&](const float* x) { return load(x, rest); },
      [&](float* y, Widest v) { store(y, rest, v); });
}

// Joins two vectors of a window. A NaN is greater than every number.
template <bool is_max>
[[gnu::always_inline]] inline Widest pooled(Widest a, Widest x) {
  if constexpr (!is_max) return a + x;
  return ((x > a) | (x != x)) ? x : a;
}

// Returns the gradients of elements of windows, and takes them from `left`: the first element that
// equals the result of its window gets its gradient.
[[gnu::always_inline]] inline Widest taken(Widest x, Widest result, Widest& left) {
  const auto hit = x == result;
  const Widest mine = hit ? left : Widest{};
  left = hit ? Widest{} : left;
  return mine;
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
