// The vectors of AVX-512 (F, BW, DQ and VL).
#pragma once

#include "emulator/kernels/simd/avx2.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

using Widest = float __attribute__((vector_size(64)));
using Narrow = Floats8;
constexpr int kRegisters = 32;

inline Widest fmadd(Widest a, Widest b, Widest c) { return _mm512_fmadd_ps(a, b, c); }
inline Widest root(Widest x) { return _mm512_sqrt_ps(x); }
inline float sum_of(Widest v) {
  const Floats8 low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  return sum_of(low + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}

template <>
inline Widest load_half<Widest>(const uint16_t* x) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
template <>
inline Widest load_bfloat<Widest>(const uint16_t* x) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
inline void store_half(uint16_t* y, Widest v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtps_ph(v, kToNearest));
}
inline Widest round_to_half(Widest x) { return _mm512_cvtph_ps(_mm512_cvtps_ph(x, kToNearest)); }
// Returns bfloat_bits() of the lanes.
inline __m512i bfloat_words(Widest x) {
  const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
}
inline void store_bfloat(uint16_t* y, Widest v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtepi32_epi16(bfloat_words(v)));
}
inline Widest round_to_bfloat(Widest x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(bfloat_words(x), 16));
}

using Mask = __mmask16;
inline Mask first_lanes(int64_t count) { return static_cast<Mask>((1U << count) - 1); }
inline Widest load(const float* x, Mask lanes) { return _mm512_maskz_loadu_ps(lanes, x); }
inline void store(float* y, Mask lanes, Widest v) { _mm512_mask_storeu_ps(y, lanes, v); }

}  // namespace poptorch::emulator::inline POPTORCH_SET
