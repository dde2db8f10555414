// The loops over channels of depthwise convolutions. The sums of a few output pixels are kept in
// registers, a block of channels at a time: these pixels share the loads of the weights.
#include <algorithm>

#include "emulator/kernels/sets/end_sums.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/simd.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

constexpr int kVectors = 2;  // of channels
constexpr int kPixels = 6;   // at most; their sums and the weights fill 14 registers

// Sums `Vectors` vectors of channels, from channel c on, of `Pixels` pixels from number p on.
template <int Pixels, int Vectors>
void whole_block(const DepthwiseRun& r, int64_t p, int64_t c, float* y, const Ending* e) {
  Widest sums[Pixels][Vectors];
#pragma GCC unroll 8
  for (int v = 0; v < Vectors; ++v) {
    const Widest start = r.bias ? load<Widest>(r.bias + c + kLanes * v) : Widest{};
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i) sums[i][v] = start;
  }
  const float *x = r.x + p * r.step + c, *w = r.w + c;
  for (int t = 0; t < r.taps; ++t) {
    Widest weights[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) weights[v] = load<Widest>(w + r.with[t] + kLanes * v);
    const float* from = x + r.from[t];
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i, from += r.step) {
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) {
        sums[i][v] = fmadd(load<Widest>(from + kLanes * v), weights[v], sums[i][v]);
      }
    }
  }
  Ending part;
  if (e) part = e->from(p, c);
#pragma GCC unroll 8
  for (int i = 0; i < Pixels; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      const int64_t at = kLanes * v, in_rows = i * part.row_step + at;
      if (part.scale) {
        sums[i][v] =
            fmadd(sums[i][v], load<Widest>(part.scale + at), load<Widest>(part.shift + at));
      }
      if (part.added) sums[i][v] = sums[i][v] + load<Widest>(part.added + in_rows);
      if (e) sums[i][v] = within(sums[i][v], part.low, part.high);
      float* to = e ? part.to + in_rows : y + (p + i) * r.channels + c + at;
      store(to, sums[i][v]);
    }
  }
}

// Sums the last channels of a pixel, less than a vector.
void part_of_block(const DepthwiseRun& r, int64_t p, int64_t c, float* y, const Ending* e) {
  const int64_t n = r.channels - c;
  float sums[kLanes] = {};
  if (r.bias) std::copy_n(r.bias + c, n, sums);
  for (int t = 0; t < r.taps; ++t) {
    const float *a = r.x + p * r.step + c + r.from[t], *b = r.w + c + r.with[t];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) sums[i] = vec::fma(a[i], b[i], sums[i]);
  }
  if (e) return end_row(e->from(p, c), sums, n);
  std::copy_n(sums, n, y + p * r.channels + c);
}

template <int Pixels>
void group(const DepthwiseRun& r, int64_t p, float* y, const Ending* e) {
  int64_t c = 0;
  for (; c + kVectors * kLanes <= r.channels; c += kVectors * kLanes) {
    whole_block<Pixels, kVectors>(r, p, c, y, e);
  }
  if (c + kLanes <= r.channels) whole_block<Pixels, 1>(r, p, c, y, e), c += kLanes;
  for (int64_t i = 0; c < r.channels && i < Pixels; ++i) part_of_block(r, p + i, c, y, e);
}

}  // namespace

void depthwise_pixels(const DepthwiseRun& r, int64_t pixels, float* y, const Ending* ending) {
  static constexpr decltype(&group<1>) kGroups[] = {group<1>, group<2>, group<3>,
                                                    group<4>, group<5>, group<6>};
  for (int64_t p = 0; p < pixels; p += kPixels) {
    kGroups[std::min<int64_t>(pixels - p, kPixels) - 1](r, p, y, ending);
  }
}

void add_row_products(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t n,
                      int64_t channels, float* y) {
  constexpr int kVectors = 32 / kLanes;
  int64_t c = 0;
  for (; c + 32 <= channels; c += 32) {
    Widest sums[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[v] = load<Widest>(y + c + kLanes * v);
    for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[v] = fmadd(load<Widest>(a + i * a_step + c + kLanes * v),
                        load<Widest>(b + i * b_step + c + kLanes * v), sums[v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(y + c + kLanes * v, sums[v]);
  }
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC ivdep
    for (int64_t k = c; k < channels; ++k) {
      y[k] = vec::fma(a[i * a_step + k], b[i * b_step + k], y[k]);
    }
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
