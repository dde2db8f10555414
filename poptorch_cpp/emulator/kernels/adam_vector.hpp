// Adam's step on a vector, with its roundings: what a pass over memory and a product in registers
// both run.
#pragma once

#include <immintrin.h>

#include "emulator/kernels/tile_ops.hpp"

namespace poptorch::emulator {

struct Plain {
  static __m256 round(__m256 x) { return x; }
};
struct Half {
  static __m256 round(__m256 x) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

// How m is held: as floats, or as halves where no other step reads it.
struct Wide {
  using Element = float;
  static __m256 load(const float* x) { return _mm256_loadu_ps(x); }
  static void store(float* y, __m256 v) { _mm256_storeu_ps(y, v); }
};
struct Stored {
  using Element = uint16_t;
  static __m256 load(const uint16_t* x) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  }
  static void store(uint16_t* y, __m256 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y),
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

// (keep1, m, fresh1, g, keep2, v, fresh2, eps, w) → m, v and w + scale · m / (√v + eps).
template <typename Rounding, typename RatioRounding, typename Moment>
struct AdamVector {
  using M = typename Moment::Element;
  static constexpr int kGradient = 3;  // source

  explicit AdamVector(const MicroArgs& a)
      : keep1(scalar(a, 0)),
        fresh1(scalar(a, 2)),
        keep2(scalar(a, 4)),
        fresh2(scalar(a, 6)),
        eps(scalar(a, 7)),
        scale(_mm256_set1_ps(a.imm(0))) {}

  // Reads all before it writes: streams may stand a multiple of a page apart.
  void operator()(__m256 g, const M* m_in, const float* v_in, const float* w_in, M* m_out,
                  float* v_out, float* w_out) const __attribute__((always_inline)) {
    const __m256 m_old = Moment::load(m_in), v_old = _mm256_loadu_ps(v_in);
    const __m256 w_old = _mm256_loadu_ps(w_in), sample = Rounding::round(g);
    const __m256 m =
        Rounding::round(_mm256_add_ps(_mm256_mul_ps(keep1, m_old), _mm256_mul_ps(fresh1, sample)));
    const __m256 v =
        _mm256_add_ps(_mm256_mul_ps(keep2, v_old), _mm256_mul_ps(_mm256_mul_ps(fresh2, g), g));
    const __m256 ratio =
        RatioRounding::round(_mm256_div_ps(m, _mm256_add_ps(_mm256_sqrt_ps(v), eps)));
    Moment::store(m_out, m);
    _mm256_storeu_ps(v_out, v);
    _mm256_storeu_ps(w_out, _mm256_add_ps(w_old, _mm256_mul_ps(scale, ratio)));
  }

 private:
  static __m256 scalar(const MicroArgs& a, int i) { return _mm256_set1_ps(*a.in<float>(i)); }
  __m256 keep1, fresh1, keep2, fresh2, eps, scale;
};

}  // namespace poptorch::emulator
