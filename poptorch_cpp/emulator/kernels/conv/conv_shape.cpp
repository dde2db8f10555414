#include "emulator/kernels/conv/conv_shape.hpp"

#include <algorithm>
#include <cstring>

namespace poptorch::emulator {

ConvShape ConvShape::of(const KernelRequest& request, const ir::Shape& x, const ir::Shape& w,
                        const ir::Shape& y) {
  ConvShape s;
  s.batch = x[0];
  s.groups = request.attr<int64_t>("groups");
  s.in_channels = x[1];
  s.out_channels = y[1];
  const size_t spatial = x.size() - 2;
  for (size_t d = 0; d < spatial; ++d) {
    const size_t at = 3 - spatial + d;
    s.in[at] = x[2 + d];
    s.out[at] = y[2 + d];
    s.kernel[at] = w[2 + d];
    s.strides[at] = request.attr<ir::Ints>("strides")[d];
    s.padding[at] = request.attr<ir::Ints>("padding")[d];
    s.dilation[at] = request.attr<ir::Ints>("dilation")[d];
  }
  return s;
}

namespace {

// Runs are short, often of a few channels: a call of memcpy would cost more than the copy, so each
// memcpy here has a size that the compiler knows.
template <typename T>
void copy(const T* from, int64_t count, T* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) std::memcpy(to + i, from + i, 8 * sizeof(T));
  if (i + 4 <= count) {
    std::memcpy(to + i, from + i, 4 * sizeof(T));
    i += 4;
  }
  for (int k = 0; k < 3 && i < count; ++k, ++i) to[i] = from[i];
}

}  // namespace

Patches::Patches(const ConvShape& shape) : s_(shape) {
  // Without groups or dilation, neighbouring kernel columns are neighbours in memory.
  const bool joined = s_.groups == 1 && s_.dilation[2] == 1;
  run_ = joined ? s_.kernel[2] * s_.in_channels : s_.group_in();
}

// Calls visit(element of x, patch element - begin, count, inside) for the pieces of the patch.
template <typename Visit>
void Patches::walk(int64_t pixel, int64_t group, int64_t begin, int64_t end, Visit visit) const {
  const int64_t row = pixel / s_.out[2], plane = row / s_.out[1], n = plane / s_.out[0];
  const int64_t w = pixel - row * s_.out[2], h = row - plane * s_.out[1];
  const int64_t d = plane - n * s_.out[0], channels = s_.group_in();
  const int64_t runs_in_row = s_.kernel[2] * channels / run_;
  // The run and the kernel position of `begin`; the loop counts on.
  int64_t start = begin / run_, kw = start % runs_in_row, rows = start / runs_in_row;
  int64_t kh = rows % s_.kernel[1], kd = rows / s_.kernel[1];
  start *= run_;
  for (int64_t p = begin; p < end; start += run_) {
    const int64_t first = p - start, last = std::min(run_, end - start), at = p - begin;
    const int64_t z = d * s_.strides[0] - s_.padding[0] + kd * s_.dilation[0];
    const int64_t y = h * s_.strides[1] - s_.padding[1] + kh * s_.dilation[1];
    const int64_t x = w * s_.strides[2] - s_.padding[2] + kw * s_.dilation[2];
    if (z < 0 || z >= s_.in[0] || y < 0 || y >= s_.in[1]) {
      visit(0, at, last - first, false);
    } else {
      // Elements [low, high) of the run lie in columns of the input.
      const int64_t low = std::clamp(-x * channels, first, last);
      const int64_t high = std::clamp((s_.in[2] - x) * channels, low, last);
      const int64_t from =
          (((n * s_.in[0] + z) * s_.in[1] + y) * s_.in[2] + x) * s_.in_channels + group * channels;
      if (low > first) visit(0, at, low - first, false);
      if (high > low) visit(from + low, at + low - first, high - low, true);
      if (last > high) visit(0, at + high - first, last - high, false);
    }
    p += last - first;
    if (++kw == runs_in_row) kw = 0, ++kh;
    if (kh == s_.kernel[1]) kh = 0, ++kd;
  }
}

void Patches::read(const float* x, int64_t pixel, int64_t group, int64_t begin, int64_t end,
                   float* out) const {
  walk(pixel, group, begin, end, [&](int64_t from, int64_t at, int64_t count, bool inside) {
    inside ? copy(x + from, count, out + at) : (void)std::fill_n(out + at, count, 0.0f);
  });
}

void Patches::read(const uint16_t* x, int64_t pixel, int64_t group, int64_t begin, int64_t end,
                   uint16_t* out) const {
  walk(pixel, group, begin, end, [&](int64_t from, int64_t at, int64_t count, bool inside) {
    inside ? copy(x + from, count, out + at) : (void)std::fill_n(out + at, count, uint16_t{0});
  });
}

void Patches::add(float* x, int64_t pixel, int64_t group, int64_t begin, int64_t end,
                  const float* in) const {
  walk(pixel, group, begin, end, [&](int64_t from, int64_t at, int64_t count, bool inside) {
    for (int64_t i = 0; inside && i < count; ++i) x[from + i] += in[at + i];
  });
}

}  // namespace poptorch::emulator
