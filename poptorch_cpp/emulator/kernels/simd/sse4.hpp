// The vectors of x86-64-v2, which has neither fused multiply-adds nor halves: products are rounded
// before they are added, and halves are converted one at a time.
#pragma once

#include <smmintrin.h>

#include "emulator/kernels/simd/four_lanes.hpp"
#include "support/half.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int kRegisters = 16;

inline Widest fmadd(Widest a, Widest b, Widest c) { return a * b + c; }
inline Widest root(Widest x) { return _mm_sqrt_ps(x); }

template <typename V>
V load_half(const uint16_t* x) {
  V v;
  for (int i = 0; i < 4; ++i) v[i] = support::from_half(x[i]);
  return v;
}
inline void store_half(uint16_t* y, Widest v) {
  for (int i = 0; i < 4; ++i) y[i] = support::to_half(v[i]);
}
inline Widest round_to_half(Widest x) {
  for (int i = 0; i < 4; ++i) x[i] = support::from_half(support::to_half(x[i]));
  return x;
}

using Longs2 = uint64_t __attribute__((vector_size(16)));
// Returns the products of the lower halves of the lanes.
inline Longs2 low_product(Longs2 a, Longs2 b) {
  return reinterpret_cast<Longs2>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
