// Formulas in double for functions of floats that lose too many digits in float. They are written
// as those of vector_math.hpp, and are exact to about 1e-15.
#pragma once

#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET::wide {

inline uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
inline double bits(uint64_t u) { return std::bit_cast<double>(u); }

// Whole numbers added to this one stand in its lowest bits: a conversion that every instruction set
// has.
constexpr double kWholeInBits = 0x1.8p52;

inline double abs(double x) { return bits(bits(x) & ~(uint64_t{1} << 63)); }

// Computes a · b + c, rounded once where `fused` and the instruction set does so.
template <bool fused = true>
[[gnu::always_inline]] inline double multiply_add(double a, double b, double c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  if constexpr (fused) return __builtin_fma(a, b, c);
#endif
  return a * b + c;
}

// Returns exp(x). Where that is outside of the range of floats, the result is too.
[[gnu::always_inline]] inline double exp(double x) {
  x = x > 120.0 ? 120.0 : x;
  x = x < -120.0 ? -120.0 : x;
  const double shifted = multiply_add(x, 1.44269504088896340736, kWholeInBits);
  const double n = shifted - kWholeInBits;
  const double r = multiply_add(n, -0.69314718055994530942, x);
  double p = 1.0 / 3628800;
  p = multiply_add(p, r, 1.0 / 362880);
  p = multiply_add(p, r, 1.0 / 40320);
  p = multiply_add(p, r, 1.0 / 5040);
  p = multiply_add(p, r, 1.0 / 720);
  p = multiply_add(p, r, 1.0 / 120);
  p = multiply_add(p, r, 1.0 / 24);
  p = multiply_add(p, r, 1.0 / 6);
  p = multiply_add(p, r, 0.5);
  p = multiply_add(multiply_add(p, r, 1.0), r, 1.0);
  return p * bits((bits(shifted) + 1023) << 52);
}

// Returns log(x) for a positive, finite x, and minus infinity for zero. Random numbers must
// have the same bits on all hosts, so that theirs is not fused.
template <bool fused = false>
[[gnu::always_inline]] inline double log(double x) {
  constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcdu;
  const uint64_t u = bits(x) - kRootOfHalf + (uint64_t{1024} << 52);
  const double e = bits((u >> 52) | bits(0x1p52)) - (0x1p52 + 1024);
  const double f = bits((u & 0xfffffffffffffu) + kRootOfHalf) - 1.0;
  const double t = f / (2.0 + f), s = t * t;  // log(1 + f) = 2 artanh(t)
  double p = 2.0 / 17;
  p = multiply_add<fused>(p, s, 2.0 / 15);
  p = multiply_add<fused>(p, s, 2.0 / 13);
  p = multiply_add<fused>(p, s, 2.0 / 11);
  p = multiply_add<fused>(p, s, 2.0 / 9);
  p = multiply_add<fused>(p, s, 2.0 / 7);
  p = multiply_add<fused>(p, s, 2.0 / 5);
  p = multiply_add<fused>(p, s, 2.0 / 3);
  const double near_one = multiply_add<fused>(p * s, t, 2.0 * t);
  const double y = multiply_add<fused>(e, 0.69314718055994530942, near_one);
  return x == 0.0 ? -std::numeric_limits<double>::infinity() : y;
}

inline double of_word(uint32_t word) { return bits(uint64_t{word} | bits(0x1p52)) - 0x1p52; }

struct SinCos {
  double sin, cos;
};

// Returns the sine and cosine of 2π t, for t in [0, 1]. The reduction to an eighth of a turn is
// exact.
inline SinCos sin_cos_of_turns(double t) {
  const double shifted = 4.0 * t + kWholeInBits;
  const uint64_t quarter = bits(shifted);
  const double r = (t - 0.25 * (shifted - kWholeInBits)) * 6.283185307179586476925, s = r * r;
  double p = 1.0 / 6227020800;
  p = p * s - 1.0 / 39916800;
  p = p * s + 1.0 / 362880;
  p = p * s - 1.0 / 5040;
  p = p * s + 1.0 / 120;
  p = p * s - 1.0 / 6;
  const double sine = (p * s) * r + r;
  double q = -1.0 / 87178291200;
  q = q * s + 1.0 / 479001600;
  q = q * s - 1.0 / 3628800;
  q = q * s + 1.0 / 40320;
  q = q * s - 1.0 / 720;
  q = q * s + 1.0 / 24;
  const double cosine = (q * s - 0.5) * s + 1.0;
  const bool odd = (quarter & 1) != 0;
  // Quarters 2 and 3 negate the sine, 1 and 2 the cosine.
  const uint64_t negative_sine = (quarter >> 1) << 63;
  const uint64_t negative_cosine = ((quarter + 1) >> 1) << 63;
  return {bits(bits(odd ? cosine : sine) ^ negative_sine),
          bits(bits(odd ? sine : cosine) ^ negative_cosine)};
}

// Returns x to the power y, for finite numbers.
inline float pow(float x, float y) {
  const double magnitude =
      exp(static_cast<double>(y) * log<true>(static_cast<double>(vec::abs(x))));
  const float half = 0.5f * y;
  const bool whole = __builtin_truncf(y) == y, odd = whole && __builtin_truncf(half) != half;
  float power = static_cast<float>(magnitude);
  power = odd ? vec::copysign(power, x) : power;
  power = x < 0.0f && !whole ? std::numeric_limits<float>::quiet_NaN() : power;
  return y == 0.0f ? 1.0f : power;
}

// Returns the remainder of x/z with the sign of x. It is exact where fmod_is_exact says so.
inline float fmod(float x, float z) {
  const double a = vec::abs(x), b = vec::abs(z);
  double rest = a - __builtin_trunc(a / b) * b;
  rest = rest < 0.0 ? rest + b : rest;
  rest = rest >= b ? rest - b : rest;
  return vec::copysign(static_cast<float>(rest), x);
}
inline bool fmod_is_exact(float x, float z) {
  return vec::both(vec::abs(x) < vec::abs(z) * 0x1p29f, vec::abs(z) < 0x1p90f);
}

// Returns log(gamma(x)) for x between 0 and 1e30, by Stirling's series at x, or x + 8 if x is
// small.
inline float lgamma(float given) {
  const double x = given;
  const bool small = x < 8.0;
  double product = 1.0;
  for (int i = 0; i < 8; ++i) product *= x + i;
  const double z = small ? x + 8.0 : x, w = 1.0 / z, s = w * w;
  double series = -691.0 / 360360;
  series = series * s + 1.0 / 1188;
  series = series * s - 1.0 / 1680;
  series = series * s + 1.0 / 1260;
  series = series * s - 1.0 / 360;
  series = series * s + 1.0 / 12;
  const double y = (z - 0.5) * log(z) - z + 0.91893853320467274178 + series * w;
  const bool zero = vec::either(given == 1.0f, given == 2.0f);
  return zero ? 0.0f : static_cast<float>(y - log(small ? product : 1.0));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET::wide
