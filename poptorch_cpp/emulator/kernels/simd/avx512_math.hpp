// Formulas of vector_math.hpp and vector_functions.hpp on vectors of AVX-512, with instructions
// that compilers do not choose. They give the bits of the formulas on floats.
#pragma once

#include <immintrin.h>

#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET::vec {

constexpr bool kHasVectorFormulas = true;

// Holds exp(r) - 1 and n, where x = n log(2) + r, and n + kWholeInBits.
struct ExpVectors {
  Widest grown, n, shifted;
};
inline ExpVectors exp_parts(Widest x) {
  const Widest whole = spread<Widest>(kWholeInBits);
  const Widest shifted = fma(x, spread<Widest>(1.44269504f), whole), n = shifted - whole;
  Widest r = fma(n, spread<Widest>(-0.693359375f), x);
  r = fma(n, spread<Widest>(2.12194440e-4f), r);
  return {exp_grown(r), n, shifted};
}

inline Widest exp(Widest x) {
  // Zeros are not computed as products that underflow.
  const __mmask16 some = _mm512_cmp_ps_mask(x, spread<Widest>(-103.98f), _CMP_NLT_UQ);
  const ExpVectors parts = exp_parts(_mm512_min_ps(spread<Widest>(89.0f), x));  // keeps NaN
  return _mm512_maskz_scalef_ps(some, parts.grown + 1.0f, parts.n);
}

struct LogVectors {
  Widest e, f;
};
// Both are NaN or infinite where the logarithm is.
inline LogVectors log_parts(Widest x) {
  const Widest one = spread<Widest>(1.0f);
  const Widest m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  const Widest e = _mm512_getexp_ps(x);
  const __mmask16 below = _mm512_cmp_ps_mask(m, one, _CMP_LT_OQ);
  return {_mm512_mask_add_ps(e, below, e, one), m - one};
}
inline Widest log(Widest x) {
  const auto [e, f] = log_parts(x);
  return fma(e, spread<Widest>(kLog2), log_near_one(f));
}
inline Widest log2(Widest x) {
  const auto [e, f] = log_parts(x);
  return fma(log_near_one(f), spread<Widest>(kLog2OfE), e);
}
inline Widest log10(Widest x) {
  const auto [e, f] = log_parts(x);
  return fma(log_near_one(f), spread<Widest>(kLog10OfE), e * kLog10OfTwo);
}

// Returns `y`, which is not negative, with the signs of `x`.
inline Widest with_signs(Widest y, Widest x) {
  constexpr int kFirstOrBothOthers = 0xf8;
  const __m512i signs = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_castps_si512(y), _mm512_castps_si512(x), signs, kFirstOrBothOthers));
}

inline Widest tanh(Widest x) {
  const Widest a = _mm512_abs_ps(x);
  const ExpVectors parts = exp_parts(_mm512_min_ps(spread<Widest>(2 * kTanhIsOne), a + a));
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(parts.shifted), 23);
  const Widest one = spread<Widest>(1.0f);
  const Widest power = _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_castps_si512(one)));
  const Widest g = fma(parts.grown, power, power - one);
  return with_signs(g / (g + 2.0f), x);
}

inline Widest atan(Widest x) {
  const Widest a = _mm512_abs_ps(x), one = spread<Widest>(1.0f);
  const __mmask16 middle = _mm512_cmp_ps_mask(a, spread<Widest>(kTanOfEighth), _CMP_GT_OQ);
  const __mmask16 steep = _mm512_cmp_ps_mask(a, spread<Widest>(1.0f / kTanOfEighth), _CMP_GT_OQ);
  Widest over = _mm512_mask_sub_ps(a, middle, a, one);
  Widest under = _mm512_mask_add_ps(one, middle, a, one);
  over = _mm512_mask_mov_ps(over, steep, -one);
  under = _mm512_mask_mov_ps(under, steep, a);
  Widest base = _mm512_maskz_mov_ps(middle, spread<Widest>(0.5f * kHalfPi));
  base = _mm512_mask_mov_ps(base, steep, spread<Widest>(kHalfPi));
  return with_signs(base + atan_small(over / under), x);
}

// Improves an approximation of 1 / sqrt(x) until the root rounds as that of the instruction, which
// takes longer. Where a step might underflow or overflow, the instruction computes the root.
inline Widest sqrt(Widest x) {
  const __m512i least = _mm512_set1_epi32((127 - 90) << 23);
  const __m512i range = _mm512_set1_epi32((255 - (127 - 90)) << 23);
  const __m512i above = _mm512_sub_epi32(_mm512_castps_si512(x), least);
  if (_mm512_cmplt_epu32_mask(above, range) != 0xffff) [[unlikely]]
    return root(x);
  const Widest inverse = _mm512_rsqrt14_ps(x);
  Widest y = x * inverse, half = 0.5f * inverse;
  const Widest error = fma(-half, y, spread<Widest>(0.5f));
  y = fma(y, error, y);
  half = fma(half, error, half);
  return fma(fma(-y, y, x), half, y);
}

// Few vectors have lanes that are far from zero.
inline Widest erfinv(Widest x) {
  const Widest one = spread<Widest>(1.0f), w = -log((one - x) * (one + x));
  Widest factor = erfinv_near(w);
  const __mmask16 far = _mm512_cmp_ps_mask(w, spread<Widest>(kErfinvIsNear), _CMP_NLT_UQ);
  if (far != 0) [[unlikely]] {
    factor = _mm512_mask_mov_ps(factor, far, erfinv_far(root(w)));
    const __mmask16 infinite = _mm512_cmp_ps_mask(_mm512_abs_ps(x), one, _CMP_EQ_OQ);
    factor = _mm512_mask_mov_ps(factor, infinite, spread<Widest>(INFINITY));
  }
  return factor * x;
}

}  // namespace poptorch::emulator::inline POPTORCH_SET::vec
