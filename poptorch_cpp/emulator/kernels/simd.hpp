// Vectors of floats under one set of names. Formulas are written once for a float, for eight floats
// and, where the file is compiled for AVX-512, for sixteen.
//
// The files of wide/ are compiled once for AVX2 and once for AVX-512. They export templates by Isa.
// Headers with these vectors put shared code in the inline namespace POPTORCH_ISA, so the two
// builds never share a function that has vectors. They may share other inline functions; the linker
// keeps AVX2's.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "emulator/kernels/isa.hpp"

#ifdef __AVX512F__
#define POPTORCH_ISA avx512
#else
#define POPTORCH_ISA avx2
#endif

namespace poptorch::emulator {

inline namespace POPTORCH_ISA {

template <typename V>
constexpr int kLanesOf = sizeof(V) / sizeof(float);

template <typename V>
V load(const float* x);
template <>
inline float load<float>(const float* x) {
  return *x;
}
template <>
inline __m256 load<__m256>(const float* x) {
  return _mm256_loadu_ps(x);
}
inline void store(float* y, float v) { *y = v; }
inline void store(float* y, __m256 v) { _mm256_storeu_ps(y, v); }

template <typename V>
V spread(float x);  // in every lane
template <>
inline __m256 spread<__m256>(float x) {
  return _mm256_set1_ps(x);
}
inline __m256 fmadd(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
inline float root(float x) { return std::sqrt(x); }
inline __m256 root(__m256 x) { return _mm256_sqrt_ps(x); }

inline float sum_of(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

// Halves in memory.
template <typename V>
V load_half(const uint16_t* x);
template <>
inline __m256 load_half<__m256>(const uint16_t* x) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
inline void store_half(uint16_t* y, __m256 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_cvtps_ph(v, kToNearest));
}
inline __m256 round_to_half(__m256 x) { return _mm256_cvtph_ps(_mm256_cvtps_ph(x, kToNearest)); }

#ifdef __AVX512F__
using Widest = __m512;
using Mask = __mmask16;

template <>
inline __m512 load<__m512>(const float* x) {
  return _mm512_loadu_ps(x);
}
inline void store(float* y, __m512 v) { _mm512_storeu_ps(y, v); }
template <>
inline __m512 spread<__m512>(float x) {
  return _mm512_set1_ps(x);
}
inline __m512 fmadd(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
inline __m512 root(__m512 x) { return _mm512_sqrt_ps(x); }
inline float sum_of(__m512 v) {
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
  return sum_of(_mm256_add_ps(_mm512_castps512_ps256(v), high));
}
template <>
inline __m512 load_half<__m512>(const uint16_t* x) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
inline void store_half(uint16_t* y, __m512 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtps_ph(v, kToNearest));
}
inline __m512 round_to_half(__m512 x) { return _mm512_cvtph_ps(_mm512_cvtps_ph(x, kToNearest)); }

inline Mask first_lanes(int64_t count) { return static_cast<Mask>((1U << count) - 1); }
inline Widest load(const float* x, Mask lanes) { return _mm512_maskz_loadu_ps(lanes, x); }
inline void store(float* y, Mask lanes, Widest v) { _mm512_mask_storeu_ps(y, lanes, v); }
#else
using Widest = __m256;
using Mask = __m256i;

inline Mask first_lanes(int64_t count) {
  alignas(32) static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kOnes + 8 - count));
}
inline Widest load(const float* x, Mask lanes) { return _mm256_maskload_ps(x, lanes); }
inline void store(float* y, Mask lanes, Widest v) { _mm256_maskstore_ps(y, lanes, v); }
#endif

constexpr int kLanes = kLanesOf<Widest>;
constexpr Isa kIsa = kLanes == 16 ? Isa::kAvx512 : Isa::kAvx2;  // of this file

}  // namespace POPTORCH_ISA
}  // namespace poptorch::emulator
