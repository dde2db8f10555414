// Pairs of vectors of AVX2. A formula on a pair runs two chains of instructions side by side, where
// one alone would wait for each result before the next. The operations are those of a float.
#pragma once

#include <immintrin.h>

#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET::vec {

constexpr bool kHasPairs = true;

using Words = int32_t __attribute__((vector_size(sizeof(Widest))));
struct WordPair {
  Words a, b;
};

inline VectorPair operator-(VectorPair x) { return {-x.a, -x.b}; }
inline VectorPair operator+(VectorPair x, VectorPair y) { return {x.a + y.a, x.b + y.b}; }
inline VectorPair operator-(VectorPair x, VectorPair y) { return {x.a - y.a, x.b - y.b}; }
inline VectorPair operator*(VectorPair x, VectorPair y) { return {x.a * y.a, x.b * y.b}; }
inline VectorPair operator/(VectorPair x, VectorPair y) { return {x.a / y.a, x.b / y.b}; }
inline VectorPair operator+(VectorPair x, float y) { return {x.a + y, x.b + y}; }
inline VectorPair operator-(VectorPair x, float y) { return {x.a - y, x.b - y}; }
inline VectorPair operator+(float x, VectorPair y) { return {x + y.a, x + y.b}; }
inline VectorPair operator-(float x, VectorPair y) { return {x - y.a, x - y.b}; }
inline VectorPair operator*(float x, VectorPair y) { return {x * y.a, x * y.b}; }
inline VectorPair operator*(VectorPair x, float y) { return y * x; }
inline VectorPair operator/(float x, VectorPair y) { return {x / y.a, x / y.b}; }

inline WordPair operator+(WordPair x, int32_t y) { return {x.a + y, x.b + y}; }
inline WordPair operator-(WordPair x, WordPair y) { return {x.a - y.a, x.b - y.b}; }
inline WordPair operator>>(WordPair x, int by) { return {x.a >> by, x.b >> by}; }
inline WordPair operator<<(WordPair x, int by) { return {x.a << by, x.b << by}; }

inline VectorPair fma(VectorPair x, VectorPair y, VectorPair z) {
  return {fmadd(x.a, y.a, z.a), fmadd(x.b, y.b, z.b)};
}
inline WordPair words_of(VectorPair x) {
  return {reinterpret_cast<Words>(x.a), reinterpret_cast<Words>(x.b)};
}
inline VectorPair floats_of(WordPair x) {
  return {reinterpret_cast<Widest>(x.a), reinterpret_cast<Widest>(x.b)};
}

// These return the second operand where one is NaN.
inline VectorPair at_most(float most, VectorPair x) {
  const Widest all = spread<Widest>(most);
  return {_mm256_min_ps(all, x.a), _mm256_min_ps(all, x.b)};
}
inline VectorPair at_least(float least, VectorPair x) {
  const Widest all = spread<Widest>(least);
  return {_mm256_max_ps(all, x.a), _mm256_max_ps(all, x.b)};
}
inline VectorPair zero_below(float least, VectorPair x, VectorPair y) {
  const Widest all = spread<Widest>(least);
  return {_mm256_and_ps(_mm256_cmp_ps(x.a, all, _CMP_NLT_UQ), y.a),
          _mm256_and_ps(_mm256_cmp_ps(x.b, all, _CMP_NLT_UQ), y.b)};
}
inline VectorPair one_from(float least, VectorPair x, VectorPair y) {
  const Widest all = spread<Widest>(least), one = spread<Widest>(1.0f);
  return {_mm256_blendv_ps(y.a, one, _mm256_cmp_ps(x.a, all, _CMP_GE_OQ)),
          _mm256_blendv_ps(y.b, one, _mm256_cmp_ps(x.b, all, _CMP_GE_OQ))};
}
inline VectorPair abs(VectorPair x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline Widest copysign(Widest x, Widest s) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(sign, x), _mm256_and_ps(sign, s));
}
inline VectorPair copysign(VectorPair x, VectorPair s) {
  return {copysign(x.a, s.a), copysign(x.b, s.b)};
}

}  // namespace poptorch::emulator::inline POPTORCH_SET::vec
