// Scalar formulas that the compiler vectorises: they avoid branches and calls, and spell out fused
// multiply-adds. Bodies and tails of a loop are therefore bit-identical.
//
// Polynomials are minimax fits of the named functions. Each function is within 2 ulp of the exact
// value, or 1e-6 * max(1, |x|).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET::vec {
struct VectorPair {
  Widest a, b;
};
}  // namespace poptorch::emulator::inline POPTORCH_SET::vec

#if defined(__AVX2__) && !defined(__AVX512F__)
#include "emulator/kernels/simd/avx2_pairs.hpp"
#else
namespace poptorch::emulator::inline POPTORCH_SET::vec {
constexpr bool kHasPairs = false;  // formulas take only floats
}
#endif

namespace poptorch::emulator::inline POPTORCH_SET::vec {

// Rounds the product first where the instruction set has no fused multiply-add: a call of the
// library's would take fifty times as long.
inline float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
inline Widest fma(Widest a, Widest b, Widest c) { return fmadd(a, b, c); }
inline float bits(uint32_t u) { return std::bit_cast<float>(u); }
inline uint32_t bits(float f) { return std::bit_cast<uint32_t>(f); }
inline float abs(float x) { return bits(bits(x) & 0x7fffffffu); }
inline float copysign(float x, float s) {
  return bits((bits(x) & 0x7fffffffu) | (bits(s) & 0x80000000u));
}

// Each formula below that takes a V is one for floats and for pairs of vectors. It uses these,
// which return `x` where it is NaN.
inline float at_most(float most, float x) { return x > most ? most : x; }
inline float at_least(float least, float x) { return x < least ? least : x; }
// These return y, or 0 where x is less; or 1 where x is not.
inline float zero_below(float least, float x, float y) { return x < least ? 0.0f : y; }
inline float one_from(float least, float x, float y) { return x >= least ? 1.0f : y; }
inline int32_t words_of(float x) { return std::bit_cast<int32_t>(x); }
inline float floats_of(int32_t x) { return std::bit_cast<float>(x); }

// These replace && and ||, whose branches may keep a loop scalar.
inline bool both(int a, int b) { return (a & b) != 0; }
inline bool either(int a, int b) { return (a | b) != 0; }

// Returns 2^n for n in [-126, 127]: of a whole number or of a pair of vectors.
template <typename Whole>
[[gnu::always_inline]] inline auto power_of_two(Whole n) {
  return floats_of((n + 127) << 23);
}

// Whole numbers of up to 22 bits added to this one stand in its lowest bits.
constexpr float kWholeInBits = 0x1.8p23f;

// Returns exp(r) - 1 for |r| up to log(2) / 2: of floats or of vectors.
template <typename V>
[[gnu::always_inline]] inline V exp_grown(V r) {
  V p = spread<V>(0.00139504706f);
  p = fma(p, r, spread<V>(0.00836888142f));
  p = fma(p, r, spread<V>(0.041666206f));
  p = fma(p, r, spread<V>(0.166665196f));
  p = fma(p, r, spread<V>(0.5f));
  return fma(p, r * r, r);
}
// Holds n and exp(r) - 1, where x = n log(2) + r.
template <typename V>
struct ExpParts {
  decltype(words_of(V())) n;
  V grown;
};
template <typename V>
[[gnu::always_inline]] inline ExpParts<V> exp_parts(V x) {
  const V shifted = fma(x, spread<V>(1.44269504f), spread<V>(kWholeInBits));
  const V n = shifted - kWholeInBits;
  V r = fma(n, spread<V>(-0.693359375f), x);
  r = fma(n, spread<V>(2.12194440e-4f), r);
  return {words_of(shifted) - words_of(spread<V>(kWholeInBits)), exp_grown(r)};
}

template <typename V>
[[gnu::always_inline]] inline V exp(V x) {
  // Beyond these bounds the result is infinite or zero. The comparisons keep NaN. Processors take
  // ten times as long for a product that underflows, so a zero is not computed as one.
  constexpr float kLeast = -103.98f;
  const auto [n, grown] = exp_parts(zero_below(kLeast, x, at_most(89.0f, x)));
  // Two factors make results below 2^-126 denormal rather than zero.
  const V first = power_of_two(n >> 1), second = power_of_two(n - (n >> 1));
  return fma(grown, first, first) * zero_below(kLeast, x, second);
}

// Holds e and f, where x = 2^e (1 + f), and 1 + f is at least 3/4 and less than 3/2.
struct LogParts {
  float e, f;
};
inline LogParts log_parts(float x) {
  constexpr uint32_t kLeast = 0x3f400000u;  // the bits of 3/4
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t u = bits(scaled) - kLeast;
  const float e = static_cast<float>(static_cast<int32_t>(u) >> 23) - (tiny ? 23.0f : 0.0f);
  return {e, bits((u & 0x007fffffu) + kLeast) - 1.0f};
}

// Returns log(1 + f) for such an f: a float or a vector.
template <typename V>
V log_near_one(V f) {
  V q = spread<V>(-0.0450748056f);
  q = fma(q, f, spread<V>(0.104630224f));
  q = fma(q, f, spread<V>(-0.131611943f));
  q = fma(q, f, spread<V>(0.144783944f));
  q = fma(q, f, spread<V>(-0.16647312f));
  q = fma(q, f, spread<V>(0.199908614f));
  q = fma(q, f, spread<V>(-0.250000954f));
  q = fma(q, f, spread<V>(0.333334506f));
  return fma(fma(q, f, spread<V>(-0.5f)), f * f, f);
}

constexpr float kLog2 = 0.69314718055994530942f;
inline float log_sum(LogParts parts) { return fma(parts.e, kLog2, log_near_one(parts.f)); }

// Gives a logarithm y of x its values outside of x > 0.
inline float log_bounds(float x, float y) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  y = x == kInfinity ? kInfinity : y;
  y = x == 0.0f ? -kInfinity : y;
  y = x < 0.0f ? -std::numeric_limits<float>::quiet_NaN() : y;
  return x != x ? x + x : y;
}

inline float log(float x) { return log_bounds(x, log_sum(log_parts(x))); }

// Returns 1 + exp(-x), infinite where the result is beyond the range.
template <typename V>
[[gnu::always_inline]] inline V one_plus_exp_of_negative(V x) {
  const auto [n, grown] = exp_parts(at_least(-87.0f, at_most(89.0f, -x)));
  return 1.0f + (grown + 1.0f) * power_of_two(n);
}

template <typename V>
[[gnu::always_inline]] inline V sigmoid(V x) {
  return 1.0f / one_plus_exp_of_negative(x);
}
template <typename V>
[[gnu::always_inline]] inline V silu(V x) {
  return x / one_plus_exp_of_negative(x);
}

// Computes g / (g + 2) for g = exp(2|x|) - 1. Above kTanhIsOne the quotient rounds to 1.
constexpr float kTanhIsOne = 9.5f;
template <typename V>
[[gnu::always_inline]] inline V tanh(V x) {
  const auto [n, grown] = exp_parts(at_most(2 * kTanhIsOne, 2.0f * abs(x)));
  const V power = power_of_two(n), g = fma(grown, power, power - 1.0f);
  return copysign(g / (g + 2.0f), x);
}

// A rational minimax fit in x². Rounding adds up to 3e-7.
template <typename V>
[[gnu::always_inline]] inline V erf(V x) {
  constexpr float kTop = 3.92f;
  const V a = abs(x), t = at_most(kTop, a), s = t * t;
  V p = spread<V>(2.0500934e-06f);
  p = fma(p, s, spread<V>(0.000284882466f));
  p = fma(p, s, spread<V>(0.00376559678f));
  p = fma(p, s, spread<V>(0.0527486578f));
  p = fma(p, s, spread<V>(0.190405965f));
  p = fma(p, s, spread<V>(1.12837911f));
  V q = spread<V>(3.80917663e-05f);
  q = fma(q, s, spread<V>(0.00116253109f));
  q = fma(q, s, spread<V>(0.0149691747f));
  q = fma(q, s, spread<V>(0.114108905f));
  q = fma(q, s, spread<V>(0.502075613f));
  q = fma(q, s, spread<V>(1.0f));
  return copysign(one_from(kTop, a, at_most(1.0f, t * p / q)), x);
}

inline float sin_of(float r) {
  const float s = r * r;
  float q = 2.71835029e-06f;
  q = fma(q, s, -0.000198393391f);
  q = fma(q, s, 0.00833332911f);
  q = fma(q, s, -0.166666672f);
  return fma(q * s, r, r);
}

inline float cos_of(float r) {
  const float s = r * r;
  float q = -2.72118314e-07f;
  q = fma(q, s, 2.47995431e-05f);
  q = fma(q, s, -0.00138888834f);
  q = fma(q, s, 0.0416666679f);
  return fma(q * s, s, fma(-0.5f, s, 1.0f));
}

// Returns x - n π/2 for the whole number n = x · 2/π, rounded, in `n`. π/2 has three parts; the
// first product and sum are exact where they are fused. They are in double elsewhere.
inline float reduce_to_quarter(float x, int32_t& n) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  const float shifted = fma(x, 0.636619772f, kWholeInBits), quarters = shifted - kWholeInBits;
  n = static_cast<int32_t>(bits(shifted) - bits(kWholeInBits));
  float r = fma(quarters, -1.57079637f, x);
  r = fma(quarters, 4.37113883e-8f, r);
  return fma(quarters, 1.71512451e-15f, r);
#else
  const double d = static_cast<double>(x);
  const double quarters = __builtin_rint(d * 0.63661977236758134308);
  n = static_cast<int32_t>(quarters);
  const double r = d - quarters * 1.57079632679489655800;
  return static_cast<float>(r - quarters * 6.12323399573676603587e-17);
#endif
}

// Computes sin(x + quarter · π/2) for |x| up to kMaxReduced.
constexpr float kMaxReduced = 1e6f;
inline float sin_quarter(float x, int32_t quarter) {
  int32_t n;
  const float r = reduce_to_quarter(x, n);
  const float s = sin_of(r), c = cos_of(r);
  const int32_t k = n + quarter;
  const float y = (k & 1) != 0 ? c : s;
  return bits(bits(y) ^ (static_cast<uint32_t>(k & 2) << 30));
}

constexpr float kSqrtHalf = 0.70710678118654752440f;
constexpr float kGeluOuter = 0.79788456080286535588f;  // sqrt(2/π)
constexpr float kGeluInner = 0.044715f;

template <typename V>
[[gnu::always_inline]] inline V gelu_erf(V x) {
  return 0.5f * x * (1.0f + erf(x * kSqrtHalf));
}
template <typename V>
[[gnu::always_inline]] inline V gelu_erf_grad(V x, V dy) {
  const V cdf = 0.5f * (1.0f + erf(x * kSqrtHalf));
  const V pdf = 0.39894228040143267794f * exp(-0.5f * x * x);
  return dy * fma(x, pdf, cdf);
}
template <typename V>
[[gnu::always_inline]] inline V gelu_tanh(V x) {
  const V inner = kGeluOuter * fma(kGeluInner * x * x, x, x);
  return 0.5f * x * (1.0f + tanh(inner));
}
template <typename V>
[[gnu::always_inline]] inline V gelu_tanh_grad(V x, V dy) {
  const V s = x * x;
  const V t = tanh(kGeluOuter * fma(kGeluInner * s, x, x));
  const V slope = kGeluOuter * fma(spread<V>(3.0f * kGeluInner), s, spread<V>(1.0f));
  return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
}

// Rounds to nearest even, as the conversions of the hardware do.
inline float round_to_bf16(float x) {
  const uint32_t u = bits(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
  return x != x ? x : bits(rounded);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET::vec
