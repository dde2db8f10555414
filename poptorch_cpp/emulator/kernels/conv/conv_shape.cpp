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
  for (; i + 32 <= count; i += 32) std::memcpy(to + i, from + i, 32 * sizeof(T));
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
  runs_in_row_ = s_.kernel[2] * s_.group_in() / run_;
  const int64_t stride = s_.strides[2], last = (s_.kernel[2] - 1) * s_.dilation[2];
  const int64_t room = s_.in[2] - 1 - last + s_.padding[2];  // of a pixel's first column
  inner_.begin = (s_.padding[2] + stride - 1) / stride;
  inner_.end = room < 0 ? 0 : std::min(s_.out[2], room / stride + 1);
}

// Calls visit(element of x, element after the first of all patches, count, inside, pixels) for the
// pieces of the patches: the same piece of some neighbouring pixels, or of one. Positions are
// counted from the first one on: divisions would take longer than a short patch.
template <typename Visit>
void Patches::walk(Range pixels, int64_t group, int64_t begin, int64_t end, Visit visit) const {
  const int64_t row = pixels.begin / s_.out[2], plane = row / s_.out[1];
  Pixel at{plane / s_.out[0], plane % s_.out[0], row % s_.out[1], pixels.begin % s_.out[2]};
  const int64_t run = begin / run_, kernel_row = run / runs_in_row_;
  const Start start{run * run_, kernel_row / s_.kernel[1], kernel_row % s_.kernel[1],
                    run % runs_in_row_};
  for (int64_t i = 0, count; i < pixels.size(); i += count) {
    const int64_t first = i * (end - begin);
    count = std::clamp<int64_t>(inner_.end - at.w, 1, pixels.size() - i);
    if (at.w < inner_.begin) count = 1;
    walk_one(at, start, group, begin, end,
             [&](int64_t from, int64_t to, int64_t elements, bool inside) {
               visit(from, first + to, elements, inside, count);
             });
    at.w += count;
    if (at.w == s_.out[2]) at.w = 0, ++at.h;
    if (at.h == s_.out[1]) at.h = 0, ++at.d;
    if (at.d == s_.out[0]) at.d = 0, ++at.image;
  }
}

template <typename Visit>
void Patches::walk_one(const Pixel& pixel, Start start, int64_t group, int64_t begin, int64_t end,
                       Visit visit) const {
  const int64_t channels = s_.group_in();
  auto& [element, kd, kh, kw] = start;
  for (int64_t p = begin; p < end; element += run_) {
    const int64_t first = p - element, last = std::min(run_, end - element), at = p - begin;
    const int64_t z = pixel.d * s_.strides[0] - s_.padding[0] + kd * s_.dilation[0];
    const int64_t y = pixel.h * s_.strides[1] - s_.padding[1] + kh * s_.dilation[1];
    const int64_t x = pixel.w * s_.strides[2] - s_.padding[2] + kw * s_.dilation[2];
    if (z < 0 || z >= s_.in[0] || y < 0 || y >= s_.in[1]) {
      visit(0, at, last - first, false);
    } else {
      // Elements [low, high) of the run lie in columns of the input.
      const int64_t low = std::clamp(-x * channels, first, last);
      const int64_t high = std::clamp((s_.in[2] - x) * channels, low, last);
      const int64_t from =
          (((pixel.image * s_.in[0] + z) * s_.in[1] + y) * s_.in[2] + x) * s_.in_channels +
          group * channels;
      if (low > first) visit(0, at, low - first, false);
      if (high > low) visit(from + low, at + low - first, high - low, true);
      if (last > high) visit(0, at + high - first, last - high, false);
    }
    p += last - first;
    if (++kw == runs_in_row_) kw = 0, ++kh;
    if (kh == s_.kernel[1]) kh = 0, ++kd;
  }
}

template <typename T>
void Patches::read_as(const T* x, Range pixels, int64_t group, int64_t begin, int64_t end,
                      T* out) const {
  const int64_t x_step = s_.strides[2] * s_.in_channels, step = end - begin;
  walk(pixels, group, begin, end,
       [&](int64_t from, int64_t at, int64_t elements, bool inside, int64_t count) {
         T* to = out + at;
         if (!inside) {
           for (int64_t i = 0; i < count; ++i, to += step) std::fill_n(to, elements, T{0});
           return;
         }
         const T* piece = x + from;
         for (int64_t i = 0; i < count; ++i, to += step, piece += x_step) copy(piece, elements, to);
       });
}

void Patches::read(const float* x, Range pixels, int64_t group, int64_t begin, int64_t end,
                   float* out) const {
  read_as(x, pixels, group, begin, end, out);
}

void Patches::read(const uint16_t* x, Range pixels, int64_t group, int64_t begin, int64_t end,
                   uint16_t* out) const {
  read_as(x, pixels, group, begin, end, out);
}

void Patches::add(float* x, Range pixels, int64_t group, int64_t begin, int64_t end,
                  const float* in) const {
  const int64_t x_step = s_.strides[2] * s_.in_channels, step = end - begin;
  walk(pixels, group, begin, end,
       [&](int64_t from, int64_t at, int64_t elements, bool inside, int64_t count) {
         for (int64_t p = 0; inside && p < count; ++p) {
           for (int64_t i = 0; i < elements; ++i) x[from + p * x_step + i] += in[at + p * step + i];
         }
       });
}

}  // namespace poptorch::emulator
