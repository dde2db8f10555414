// The loops over channels of depthwise convolutions. The sums for one output pixel are kept in
// registers, a block of channels at a time.
#include <algorithm>

#include "emulator/kernels/sets/end_sums.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/simd.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

constexpr int64_t kChannels = 32;  // whose sums stay in registers
constexpr int kVectors = kChannels / kLanes;

void whole_block(const float* x, const float* w, const float* bias, const int64_t* from,
                 const int64_t* with, int taps, float* y, const Ending* e) {
  Widest sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sums[v] = bias ? load<Widest>(bias + kLanes * v) : Widest{};
  for (int t = 0; t < taps; ++t) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = fmadd(load<Widest>(x + from[t] + kLanes * v),
                      load<Widest>(w + with[t] + kLanes * v), sums[v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = kLanes * v;
    if (e) {
      if (e->scale) {
        sums[v] = fmadd(sums[v], load<Widest>(e->scale + at), load<Widest>(e->shift + at));
      }
      if (e->added) sums[v] = sums[v] + load<Widest>(e->added + at);
      sums[v] = within(sums[v], e->low, e->high);
      y = e->to;
    }
    store(y + at, sums[v]);
  }
}

void part_of_block(const float* x, const float* w, const float* bias, const int64_t* from,
                   const int64_t* with, int taps, int64_t channels, float* y, const Ending* e) {
  float sums[kChannels] = {};
  if (bias) std::copy_n(bias, channels, sums);
  for (int t = 0; t < taps; ++t) {
    const float *a = x + from[t], *b = w + with[t];
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) sums[c] = vec::fma(a[c], b[c], sums[c]);
  }
  if (e) return end_row(*e, sums, channels);
  std::copy_n(sums, channels, y);
}

}  // namespace

void depthwise_pixel(const float* x, const float* w, const float* bias, const int64_t* from,
                     const int64_t* with, int taps, int64_t channels, float* y,
                     const Ending* ending) {
  int64_t c = 0;
  Ending part;
  auto ending_at = [&]() -> const Ending* {
    if (ending) part = ending->from(0, c);
    return ending ? &part : nullptr;
  };
  for (; c + kChannels <= channels; c += kChannels) {
    whole_block(x + c, w + c, bias ? bias + c : nullptr, from, with, taps, y + c, ending_at());
  }
  if (c == channels) return;
  part_of_block(x + c, w + c, bias ? bias + c : nullptr, from, with, taps, channels - c, y + c,
                ending_at());
}

void add_row_products(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t n,
                      int64_t channels, float* y) {
  int64_t c = 0;
  for (; c + kChannels <= channels; c += kChannels) {
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
