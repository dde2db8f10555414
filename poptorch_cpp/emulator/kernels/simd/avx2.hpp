// The vectors of AVX2, with FMA and F16C. AVX-512 uses them for the ends of rows.
#pragma once

#include <immintrin.h>

#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

using Floats8 = float __attribute__((vector_size(32)));

inline Floats8 fmadd(Floats8 a, Floats8 b, Floats8 c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats8 root(Floats8 x) { return _mm256_sqrt_ps(x); }
inline float sum_of(Floats8 v) {
  return sum_of(__builtin_shufflevector(v, v, 0, 1, 2, 3) +
                __builtin_shufflevector(v, v, 4, 5, 6, 7));
}

// Halves in memory.
template <typename V>
V load_half(const uint16_t* x);
template <>
inline Floats8 load_half<Floats8>(const uint16_t* x) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
template <typename V>
V load_bfloat(const uint16_t* x);
template <>
inline Floats8 load_bfloat<Floats8>(const uint16_t* x) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
inline void store_half(uint16_t* y, Floats8 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_cvtps_ph(v, kToNearest));
}
inline Floats8 round_to_half(Floats8 x) { return _mm256_cvtph_ps(_mm256_cvtps_ph(x, kToNearest)); }
// Rounds lanes that are not NaN to bfloat16 in the upper halves of words; the lower ones are not
// zero.
inline __m256i rounded_bfloats(Floats8 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}
inline bool any_nan(Floats8 a, Floats8 b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0;
}
// Replaces lanes by the NaN that `x` has there, made quiet.
inline __m256i with_quiet_nan(__m256i words, Floats8 x) {
  const __m256i quiet = _mm256_or_si256(_mm256_castps_si256(x), _mm256_set1_epi32(1 << 22));
  return _mm256_blendv_epi8(words, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
inline __m256i upper_bfloats(Floats8 x) {
  const __m256i rounded = rounded_bfloats(x);
  if (any_nan(x, x)) [[unlikely]]
    return with_quiet_nan(rounded, x);
  return rounded;
}
inline void store_bfloat(uint16_t* y, Floats8 v) {
  const __m256i words = _mm256_srli_epi32(upper_bfloats(v), 16);
  const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(halves));
}
inline Floats8 round_to_bfloat(Floats8 x) {
  const __m256i kept = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  return _mm256_castsi256_ps(_mm256_and_si256(upper_bfloats(x), kept));
}

// Transposes kBlock columns of kBlock floats: out[q * out_row + j] = in[j * in_column + q].
constexpr int kBlock = 8;
inline void transpose_block(const float* in, int64_t in_column, float* out, int64_t out_row) {
  Floats8 r[8], t[8];
  for (int j = 0; j < 8; ++j) r[j] = load<Floats8>(in + j * in_column);
  for (int j = 0; j < 8; j += 2) {
    t[j] = __builtin_shufflevector(r[j], r[j + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[j + 1] = __builtin_shufflevector(r[j], r[j + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int j = 0; j < 8; j += 4) {
    r[j] = __builtin_shufflevector(t[j], t[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[j + 1] = __builtin_shufflevector(t[j], t[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    r[j + 2] = __builtin_shufflevector(t[j + 1], t[j + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    r[j + 3] = __builtin_shufflevector(t[j + 1], t[j + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int j = 0; j < 4; ++j) {
    store(out + j * out_row, __builtin_shufflevector(r[j], r[j + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store(out + (j + 4) * out_row,
          __builtin_shufflevector(r[j], r[j + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

#ifndef __AVX512F__
using Widest = Floats8;
using Narrow = Floats8;
constexpr int kRegisters = 16;

// Returns bytes as words, with the bits of floats.
inline Widest load_bytes(const uint8_t* x) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return _mm256_castsi256_ps(_mm256_cvtepu8_epi32(bytes));
}

// Words whose upper halves are bfloats.
struct UpperBfloats {
  __m256i a, b;
};
inline UpperBfloats upper_bfloats(Widest a, Widest b) {
  UpperBfloats rounded{rounded_bfloats(a), rounded_bfloats(b)};
  if (any_nan(a, b)) [[unlikely]] {
    rounded = {with_quiet_nan(rounded.a, a), with_quiet_nan(rounded.b, b)};
  }
  return rounded;
}
// Stores the upper halves of words of two vectors in turn, or one after the other.
inline void store_upper_in_turn(uint16_t* y, const UpperBfloats& words) {
  constexpr int kOdd = 0xaa;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y),
                      _mm256_blend_epi16(_mm256_srli_epi32(words.a, 16), words.b, kOdd));
}
constexpr int kLanesInOrder = 0xd8;  // after the lanes of two vectors were packed in turn
inline void store_upper(uint16_t* y, const UpperBfloats& words) {
  const __m256i packed =
      _mm256_packus_epi32(_mm256_srli_epi32(words.a, 16), _mm256_srli_epi32(words.b, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y),
                      _mm256_permute4x64_epi64(packed, kLanesInOrder));
}
inline void store_bfloats(uint16_t* y, Widest even, Widest odd) {
  store_upper_in_turn(y, upper_bfloats(even, odd));
}
inline void store_neighbours(uint16_t* y, Widest first, Widest second) {
  store_upper(y, upper_bfloats(first, second));
}

using Mask = __m256i;
inline Mask first_lanes(int64_t count) {
  alignas(32) static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kOnes + 8 - count));
}
inline Widest load(const float* x, Mask lanes) { return _mm256_maskload_ps(x, lanes); }
inline void store(float* y, Mask lanes, Widest v) { _mm256_maskstore_ps(y, lanes, v); }
#endif

using Longs4 = uint64_t __attribute__((vector_size(32)));
// Returns the products of the lower halves of the lanes.
inline Longs4 low_product(Longs4 a, Longs4 b) {
  return reinterpret_cast<Longs4>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
