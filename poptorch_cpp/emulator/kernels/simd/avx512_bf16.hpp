// Products of pairs of bfloat16, in one instruction of AVX-512 BF16.
#pragma once

#include <immintrin.h>

#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr bool kMultipliesPairs = true;

// The instruction takes the upper halves first. Both steps round to nearest; denormals are zeros.
inline Widest add_products(Widest x, Widest y, Widest sum) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(y));
}

// Stores two vectors, one after the other. The instruction would take denormals as zeros.
inline void store_normal_bfloats(uint16_t* y, Widest first, Widest second) {
  const __m512bh halves = _mm512_cvtne2ps_pbh(second, first);
  std::memcpy(y, &halves, sizeof(halves));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
