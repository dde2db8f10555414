// The taps of depthwise convolutions and of those with narrow groups, which all their kernels
// share.
#pragma once

#include <algorithm>
#include <array>

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/conv/conv_shape.hpp"

namespace poptorch::emulator {

constexpr int kMaxTaps = 128;

// The taps that meet a pixel: their numbers, and offsets of the tensor that they read and of the
// weights.
struct Taps {
  int number[kMaxTaps];
  int64_t from[kMaxTaps], with[kMaxTaps];
  int count = 0;
};

// Weights are stored as [channel][tap, channel of the group]; the loops need [tap, channel of the
// group][channel], which the workspace holds.
class Depthwise : public BoundKernel {
 public:
  explicit Depthwise(const ConvShape& shape)
      : s_(shape), c_(shape.out_channels), width_(shape.group_in()) {
    ns_ = static_cast<int64_t>(s_.flops() / 20);
  }
  int64_t estimated_ns() const override { return ns_; }

 protected:
  using Place = std::array<int64_t, 3>;
  static Place place_of(int64_t pixel, const Place& sizes) {
    return {pixel / (sizes[2] * sizes[1]) % sizes[0], pixel / sizes[2] % sizes[1],
            pixel % sizes[2]};
  }

  // Finds the taps of a pixel of an image whose first pixel is number `first` of a tensor with
  // images of `sizes`. along(d, place, k) is the coordinate that tap k reads; negative: none.
  template <typename Along>
  void find_taps(const Place& at, int64_t first, const Place& sizes, Along along,
                 Taps& taps) const {
    Taps row;  // those of any row of the kernel, as offsets within a row
    for (int64_t kw = 0; kw < s_.kernel[2]; ++kw) {
      const int64_t x = along(2, at[2], kw);
      if (x < 0 || x >= sizes[2]) continue;
      row.number[row.count] = static_cast<int>(kw);
      row.from[row.count] = x * c_;
      row.with[row.count++] = kw * width_ * c_;
    }
    taps.count = 0;
    for (int64_t kd = 0; kd < s_.kernel[0]; ++kd) {
      const int64_t z = along(0, at[0], kd);
      if (z < 0 || z >= sizes[0]) continue;
      for (int64_t kh = 0; kh < s_.kernel[1]; ++kh) {
        const int64_t y = along(1, at[1], kh);
        if (y < 0 || y >= sizes[1]) continue;
        const int64_t from = (first + (z * sizes[1] + y) * sizes[2]) * c_;
        const int64_t tap = (kd * s_.kernel[1] + kh) * s_.kernel[2], with = tap * width_ * c_;
        for (int i = 0; i < row.count; ++i) {
          taps.number[taps.count + i] = static_cast<int>(tap) + row.number[i];
          taps.from[taps.count + i] = from + row.from[i];
          taps.with[taps.count + i] = with + row.with[i];
        }
        taps.count += row.count;
      }
    }
  }
  int64_t weight_rows() const { return s_.taps() * width_; }
  void transpose_weights(const float* w, float* out) const {
    transpose_matrix(w, weight_rows(), out, c_, c_, weight_rows());
  }
  int64_t in_image() const { return s_.in_pixels() / s_.batch; }
  int64_t out_image() const { return s_.out_pixels() / s_.batch; }
  int64_t input_of_tap(int d, int64_t out, int64_t k) const {
    return out * s_.strides[d] - s_.padding[d] + k * s_.dilation[d];
  }

  // Calls use(first pixel, count, taps) for runs of pixels in a row of a tensor with images of
  // `sizes`. Neighbours share the taps if all columns of the kernel meet both, and the taps of the
  // next one are `step` columns away; 0: they never share them.
  template <typename Along, typename Use>
  void for_runs(Range pixels, const Place& sizes, const Place& other, int64_t step, Along along,
                Use use) const {
    const int64_t image = sizes[0] * sizes[1] * sizes[2];
    const int64_t other_image = other[0] * other[1] * other[2];
    auto inside = [&](int64_t x) { return x >= 0 && x < other[2]; };
    auto interior = [&](int64_t w) {
      return inside(along(2, w, 0)) && inside(along(2, w, s_.kernel[2] - 1));
    };
    Taps taps;
    for (int64_t p = pixels.begin; p < pixels.end;) {
      const int64_t w = p % sizes[2];
      const int64_t most = std::min(sizes[2] - w, pixels.end - p);
      int64_t count = 1;
      if (step > 0 && interior(w)) {
        while (count < most && interior(w + count)) ++count;
      }
      find_taps(place_of(p, sizes), p / image * other_image, other, along, taps);
      use(p, count, taps);
      p += count;
    }
  }

  ConvShape s_;
  int64_t c_, width_, ns_ = 0;
};

}  // namespace poptorch::emulator
