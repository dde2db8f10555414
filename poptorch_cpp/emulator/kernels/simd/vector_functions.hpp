// This file continues vector_math.hpp with logarithms, hyperbolic and inverse functions.
#pragma once

#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET::vec {

constexpr float kHalfPi = 1.57079632679489661923f;
constexpr float kPi = 3.14159265358979323846f;

// Factors of natural logarithms in other bases.
constexpr float kLog2OfE = 1.44269504088896340736f;
constexpr float kLog10OfE = 0.43429448190325182765f, kLog10OfTwo = 0.30102999566398119521f;
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline float log2(float x) {
  const auto [e, f] = log_parts(x);
  return log_bounds(x, fma(log_near_one(f), kLog2OfE, e));
}
inline float log10(float x) {
  const auto [e, f] = log_parts(x);
  return log_bounds(x, fma(log_near_one(f), kLog10OfE, e * kLog10OfTwo));
}

inline float log1p(float x) {
  const float u = 1.0f + x;
  LogParts parts = log_parts(u);
  // The rounding of u lost this part.
  const float lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  const int32_t e = static_cast<int32_t>(parts.e);
  parts.f = e == 0 ? x : fma(lost, power_of_two(e > 126 ? -126 : -e), parts.f);
  const float y = log_bounds(u, log_sum(parts));
  return x == 0.0f ? x : y;
}

// Computes max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
inline float softplus(float x) { return (x > 0.0f ? x : 0.0f) + log1p(exp(x > 0.0f ? -x : x)); }

// Returns half of exp(a) for a >= 0. It is finite wherever sinh(a) and cosh(a) are.
inline float half_exp(float a) {
  const auto [n, grown] = exp_parts(a > 89.5f ? 89.5f : a);
  const float half = power_of_two(n - 2);
  return fma(half, grown, half) * 2.0f;
}

inline float expm1(float x) {
  float bounded = x > 89.0f ? 89.0f : x;
  bounded = bounded < -20.0f ? -20.0f : bounded;
  const auto [n, grown] = exp_parts(bounded);
  const float half = power_of_two(n - 1);
  const float y = 2.0f * fma(half, grown, half - 0.5f);
  return x == 0.0f ? x : y;
}

inline float cosh(float x) {
  const float half = half_exp(abs(x));
  return half + 0.25f / half;
}

inline float sinh(float x) {
  const float a = abs(x), s = x * x;
  float q = 2.8174397e-06f;
  q = fma(q, s, 0.00019836066f);
  q = fma(q, s, 0.0083333505f);
  q = fma(q, s, 0.16666667f);
  const float half = half_exp(a);
  return a < 1.0f ? fma(q * s, x, x) : copysign(half - 0.25f / half, x);
}

// x² + 1 and x² - 1 round to x² above this bound.
constexpr float kSquareAlone = 1e8f;

inline float asinh(float x) {
  const float a = abs(x), s = a * a;
  const bool far = a > kSquareAlone;
  const float y = log1p(far ? a : a + s / (1.0f + __builtin_sqrtf(s + 1.0f)));
  return copysign(y + (far ? kLog2 : 0.0f), x);
}

inline float acosh(float x) {
  const float t = x - 1.0f;
  const bool far = x > kSquareAlone;
  const float root = __builtin_sqrtf(fma(t, t, 2.0f * t));
  const float y = log1p(far ? t : t + root) + (far ? kLog2 : 0.0f);
  return x < 1.0f ? std::numeric_limits<float>::quiet_NaN() : y;
}

inline float atanh(float x) {
  const float a = abs(x);
  return copysign(0.5f * log1p(2.0f * a / (1.0f - a)), x);
}

// Returns atan(t) for |t| <= tan(π/8): a float or a vector.
template <typename V>
V atan_small(V t) {
  const V s = t * t;
  V q = spread<V>(-0.060834456f);
  q = fma(q, s, spread<V>(0.10595998f));
  q = fma(q, s, spread<V>(-0.14243849f));
  q = fma(q, s, spread<V>(0.1999849f));
  q = fma(q, s, spread<V>(-0.33333316f));
  return fma(q * s, t, t);
}

constexpr float kTanOfEighth = 0.41421356237309504880f;  // tan(π/8)

// Reduces the argument: tan(v - π/4) = (tan(v) - 1) / (tan(v) + 1), and tan(v - π/2) = -1 / tan(v).
inline float atan(float x) {
  const float a = abs(x);
  const bool middle = a > kTanOfEighth, steep = a > 1.0f / kTanOfEighth;
  float over = middle ? a - 1.0f : a, under = middle ? a + 1.0f : 1.0f;
  over = steep ? -1.0f : over;
  under = steep ? a : under;
  float base = middle ? 0.5f * kHalfPi : 0.0f;
  base = steep ? kHalfPi : base;
  return copysign(base + atan_small(over / under), x);
}

// Returns the angle of the point (x, y), between -π and π.
inline float atan2(float y, float x) {
  const float a = abs(y), b = abs(x);
  const bool steep = a > b;
  const float scale = a + b > 1e37f ? 0.25f : 1.0f;  // of sums that would be infinite
  const float least = (steep ? b : a) * scale, most = (steep ? a : b) * scale;
  const bool endless = least == std::numeric_limits<float>::infinity();
  const bool upper = either(least > kTanOfEighth * most, endless);
  const float over = upper ? least - most : least, under = upper ? least + most : most;
  float t = over / under;
  t = either(most == 0.0f, endless) ? 0.0f : t;
  float v = atan_small(t) + (upper ? 0.5f * kHalfPi : 0.0f);
  v = steep ? kHalfPi - v : v;
  v = (bits(x) & 0x80000000u) != 0 ? kPi - v : v;
  return either(x != x, y != y) ? x + y : copysign(v, y);
}

// Returns asin(z) for |z| <= 1/2 and s = z².
inline float asin_small(float z, float s) {
  float q = 0.042218547f;
  q = fma(q, s, 0.024147611f);
  q = fma(q, s, 0.045477096f);
  q = fma(q, s, 0.074952416f);
  q = fma(q, s, 0.16666754f);
  return fma(q * s, z, z);
}
inline float asin(float x) {
  const float a = abs(x);
  const bool far = a > 0.5f;
  // sin²((π/2 - v) / 2) = (1 - sin(v)) / 2 takes large arguments to small ones.
  const float s = far ? 0.5f - 0.5f * a : a * a;
  const float v = asin_small(far ? __builtin_sqrtf(s) : a, s);
  return copysign(far ? kHalfPi - 2.0f * v : v, x);
}
inline float acos(float x) {
  const float a = abs(x);
  const bool far = a > 0.5f;
  const float s = far ? 0.5f - 0.5f * a : a * a;
  const float v = asin_small(far ? __builtin_sqrtf(s) : x, s);
  return far ? (x < 0.0f ? kPi - 2.0f * v : 2.0f * v) : kHalfPi - v;
}

// Follows M. Giles, "Approximating the erfinv function" (2010): a polynomial in -log(1 - x²) near
// zero, and one in its root elsewhere. Their coefficients are fits made for this file.
template <typename V>
V erfinv_near(V w) {
  const V u = w - 2.5f;
  V p = spread<V>(2.8534789e-08f);
  p = fma(p, u, spread<V>(3.4372707e-07f));
  p = fma(p, u, spread<V>(-3.5288595e-06f));
  p = fma(p, u, spread<V>(-4.396781e-06f));
  p = fma(p, u, spread<V>(0.00021860219f));
  p = fma(p, u, spread<V>(-0.0012537076f));
  p = fma(p, u, spread<V>(-0.0041777077f));
  p = fma(p, u, spread<V>(0.24664073f));
  return fma(p, u, spread<V>(1.5014094f));
}
template <typename V>
V erfinv_far(V root) {
  const V v = root - 3.0f;
  V q = spread<V>(-0.00016542853f);
  q = fma(q, v, spread<V>(8.6108346e-05f));
  q = fma(q, v, spread<V>(0.0013002249f));
  q = fma(q, v, spread<V>(-0.0036601378f));
  q = fma(q, v, spread<V>(0.0057617994f));
  q = fma(q, v, spread<V>(-0.0076253046f));
  q = fma(q, v, spread<V>(0.009435622f));
  q = fma(q, v, spread<V>(1.0016742f));
  return fma(q, v, spread<V>(2.832977f));
}
constexpr float kErfinvIsNear = 5.0f;
inline float erfinv(float x) {
  const float w = -log((1.0f - x) * (1.0f + x));
  const float near = erfinv_near(w), far = erfinv_far(__builtin_sqrtf(w));
  const float y = (w < kErfinvIsNear ? near : far) * x;
  return abs(x) == 1.0f ? copysign(std::numeric_limits<float>::infinity(), x) : y;
}

// Returns tan(x) for |x| up to kMaxReduced.
inline float tan(float x) {
  int32_t n;
  const float r = reduce_to_quarter(x, n);
  const float s = sin_of(r), c = cos_of(r);
  const bool odd = (n & 1) != 0;
  return (odd ? -c : s) / (odd ? s : c);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET::vec

#ifdef __AVX512F__
#include "emulator/kernels/simd/avx512_math.hpp"
#else
namespace poptorch::emulator::inline POPTORCH_SET::vec {
constexpr bool kHasVectorFormulas = false;  // of atan, erfinv, exp, log, log2, log10, sqrt, tanh
}
#endif
