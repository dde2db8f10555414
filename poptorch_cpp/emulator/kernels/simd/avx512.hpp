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

// The compiler converts general vectors in quarters.
inline void to_doubles(Widest v, __m512d& low, __m512d& high) {
  low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
  high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
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
// Returns bytes as words, with the bits of floats.
inline Widest load_bytes(const uint8_t* x) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm512_castsi512_ps(_mm512_cvtepu8_epi32(bytes));
}
inline void store_half(uint16_t* y, Widest v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtps_ph(v, kToNearest));
}
inline Widest round_to_half(Widest x) { return _mm512_cvtph_ps(_mm512_cvtps_ph(x, kToNearest)); }
// Rounds lanes that are not NaN to bfloat16 in the upper halves of words; the lower ones are not
// zero.
inline __m512i rounded_bfloats(Widest x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1 << 16));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  return _mm512_mask_add_epi32(rounded, odd, bits, _mm512_set1_epi32(0x8000));
}
inline __m512i with_quiet_nan(__m512i rounded, Widest x) {
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, nan, _mm512_castps_si512(x), _mm512_set1_epi32(1 << 22));
}
// Returns bfloat_bits() of the lanes in the upper halves of words.
inline __m512i upper_bfloats(Widest x) { return with_quiet_nan(rounded_bfloats(x), x); }
// Rounds two vectors to bfloat16 in the upper halves of words.
struct UpperBfloats {
  __m512i a, b;
};
inline UpperBfloats upper_bfloats(Widest a, Widest b) {
  UpperBfloats rounded{rounded_bfloats(a), rounded_bfloats(b)};
  if (_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0) [[unlikely]] {
    rounded = {with_quiet_nan(rounded.a, a), with_quiet_nan(rounded.b, b)};
  }
  return rounded;
}
// Stores the upper halves of words of two vectors in turn.
inline void store_upper_in_turn(uint16_t* y, __m512i even, __m512i odd) {
  constexpr int kFirstOrBothOthers = 0xf8;
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  _mm512_storeu_si512(
      y, _mm512_ternarylogic_epi32(_mm512_srli_epi32(even, 16), odd, upper, kFirstOrBothOthers));
}
// Stores lanes of two vectors in turn.
inline void store_bfloats(uint16_t* y, Widest even, Widest odd) {
  const auto [a, b] = upper_bfloats(even, odd);
  store_upper_in_turn(y, a, b);
}
using Halves32 = uint16_t __attribute__((vector_size(64)));
// Stores two vectors, one after the other.
inline void store_neighbours(uint16_t* y, Widest first, Widest second) {
  const auto [a, b] = upper_bfloats(first, second);
  const auto x = reinterpret_cast<Halves32>(a), z = reinterpret_cast<Halves32>(b);
  const Halves32 upper =
      __builtin_shufflevector(x, z, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33,
                              35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63);
  std::memcpy(y, &upper, sizeof(upper));
}
inline void store_bfloat(uint16_t* y, Widest v) {
  const __m512i words = _mm512_srli_epi32(upper_bfloats(v), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtepi32_epi16(words));
}
inline Widest round_to_bfloat(Widest x) {
  const __m512i kept = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  return _mm512_castsi512_ps(_mm512_and_epi32(upper_bfloats(x), kept));
}

using Words16 = uint32_t __attribute__((vector_size(64)));
// Returns a in the first eight lanes and b in the others.
inline Words16 spread_pair(uint32_t a, uint32_t b) {
  const __m512i all = _mm512_set1_epi32(static_cast<int>(a));
  return reinterpret_cast<Words16>(_mm512_mask_set1_epi32(all, 0xff00, static_cast<int>(b)));
}
// Returns the words with the numbers `at`.
inline Words16 permuted(Words16 words, Words16 at) {
  return reinterpret_cast<Words16>(
      _mm512_permutexvar_epi32(reinterpret_cast<__m512i>(at), reinterpret_cast<__m512i>(words)));
}

// These round a and then b at random, each lane by 16 bits of `random`, in their order. They add
// the bits to the fraction that the type drops, and drop the rest of the sum.
constexpr int kTruncated = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
// Returns the upper half of `base` and the 16 bits of lane i of a, or of b, in word i.
inline __m512i random_lanes(int base, __m512i random, bool of_b) {
  alignas(64) static constexpr uint16_t kLane[2][32] = {
      {0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,  0,
       8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15, 0},
      {16, 0, 17, 0, 18, 0, 19, 0, 20, 0, 21, 0, 22, 0, 23, 0,
       24, 0, 25, 0, 26, 0, 27, 0, 28, 0, 29, 0, 30, 0, 31, 0}};
  const __m512i lanes = _mm512_load_si512(kLane[of_b]);
  if (base == 0) return _mm512_maskz_permutexvar_epi16(0x55555555, lanes, random);
  return _mm512_mask_permutexvar_epi16(_mm512_set1_epi32(base), 0x55555555, lanes, random);
}
// Returns sums that are converted to halves by rounding towards zero; those of infinities may be
// NaN.
inline Widest half_sums(Widest x, __m512i random, bool of_b) {
  constexpr int kGreaterMagnitude = 3;  // with the sign of the first operand
  constexpr int kBase = 0x4b000000;     // 2^23, whose last bits are whole numbers
  // Halves near x have the distance 2^-10 times its power of two, which is at least 2^-14. A sum
  // rounded towards zero is on the same side of each half as the exact sum.
  const Widest sign_and_power = _mm512_and_ps(x, _mm512_set1_ps(-INFINITY));
  const Widest power = _mm512_range_ps(sign_and_power, _mm512_set1_ps(0x1p-14f), kGreaterMagnitude);
  const Widest bits = _mm512_castsi512_ps(random_lanes(kBase, random, of_b));
  const Widest part = _mm512_fmsub_ps(bits, _mm512_set1_ps(0x1p-26f), _mm512_set1_ps(0x1p-3f));
  return _mm512_fmadd_round_ps(part, power, x, kTruncated);
}
// Returns infinity for the sums of x that are beyond all halves, and for infinite x.
inline Widest infinite_beyond_halves(Widest x, Widest sums) {
  constexpr int kInfinities = 0x18;
  const __mmask16 beyond =
      _mm512_cmp_ps_mask(_mm512_abs_ps(sums), _mm512_set1_ps(0x1p16f), _CMP_GE_OQ);
  sums = _mm512_mask_mul_ps(sums, beyond, sums, _mm512_set1_ps(0x1p120f));
  return _mm512_mask_mov_ps(sums, _mm512_fpclass_ps_mask(x, kInfinities), x);
}
struct HalvesAtRandom {
  __m256i a, b;
};
template <typename Words>
HalvesAtRandom halves_at_random(Widest a, Widest b, Words random) {
  constexpr int kGreaterWithoutSign = 11;
  const auto words = reinterpret_cast<__m512i>(random);
  Widest sum_a = half_sums(a, words, false), sum_b = half_sums(b, words, true);
  // The conversion would make the greatest half, 65504, of sums beyond it, which are rare.
  const Widest greater = _mm512_range_ps(a, b, kGreaterWithoutSign);
  if (_mm512_cmp_ps_mask(greater, _mm512_set1_ps(65504), _CMP_GE_OQ) != 0) [[unlikely]] {
    sum_a = infinite_beyond_halves(a, sum_a), sum_b = infinite_beyond_halves(b, sum_b);
  }
  return {_mm512_cvtps_ph(sum_a, kTruncated), _mm512_cvtps_ph(sum_b, kTruncated)};
}
template <typename Words>
void put_halves_at_random(float* y, Widest a, Widest b, Words random) {
  const HalvesAtRandom rounded = halves_at_random(a, b, random);
  store(y, Widest(_mm512_cvtph_ps(rounded.a)));
  store(y + kLanesOf<Widest>, Widest(_mm512_cvtph_ps(rounded.b)));
}
template <typename Words>
void put_halves_at_random(uint16_t* y, Widest a, Widest b, Words random) {
  const HalvesAtRandom rounded = halves_at_random(a, b, random);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), rounded.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + kLanesOf<Widest>), rounded.b);
}

// Words whose upper halves are bfloats.
struct BfloatsAtRandom {
  __m512i a, b;
};
inline BfloatsAtRandom sums_with(Widest a, Widest b, __m512i random_a, __m512i random_b) {
  const __m512i bits_a = _mm512_castps_si512(a), bits_b = _mm512_castps_si512(b);
  __m512i sum_a = _mm512_add_epi32(bits_a, random_a);
  __m512i sum_b = _mm512_add_epi32(bits_b, random_b);
  if (_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0)
      [[unlikely]] {  // one is NaN, which is made quiet
    const __m512i quiet = _mm512_set1_epi32(1 << 22);
    sum_a = _mm512_mask_or_epi32(sum_a, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), bits_a, quiet);
    sum_b = _mm512_mask_or_epi32(sum_b, _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), bits_b, quiet);
  }
  return {sum_a, sum_b};
}
template <typename Words>
BfloatsAtRandom bfloats_at_random(Widest a, Widest b, Words random) {
  const auto words = reinterpret_cast<__m512i>(random);
  return sums_with(a, b, random_lanes(0, words, false), random_lanes(0, words, true));
}
template <typename Words>
void put_bfloats_at_random(float* y, Widest a, Widest b, Words random) {
  const BfloatsAtRandom rounded = bfloats_at_random(a, b, random);
  const __m512i kept = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  _mm512_storeu_si512(y, _mm512_and_si512(rounded.a, kept));
  _mm512_storeu_si512(y + kLanesOf<Widest>, _mm512_and_si512(rounded.b, kept));
}
template <typename Words>
void put_bfloats_at_random(uint16_t* y, Widest a, Widest b, Words random) {
  const BfloatsAtRandom rounded = bfloats_at_random(a, b, random);
  alignas(64) static constexpr uint16_t kUpper[] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                    23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                    45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  _mm512_storeu_si512(y,
                      _mm512_permutex2var_epi16(rounded.a, _mm512_load_si512(kUpper), rounded.b));
}
// The same for even and odd elements.
template <typename Words>
void put_bfloats_in_turn(uint16_t* y, Widest even, Widest odd, Words random) {
  const auto words = reinterpret_cast<__m512i>(random);
  const __m512i lower = _mm512_and_si512(words, _mm512_set1_epi32(0xffff));
  const auto [a, b] = sums_with(even, odd, lower, _mm512_srli_epi32(words, 16));
  store_upper_in_turn(y, a, b);
}

using Mask = __mmask16;
inline Mask first_lanes(int64_t count) { return static_cast<Mask>((1U << count) - 1); }
inline Widest load(const float* x, Mask lanes) { return _mm512_maskz_loadu_ps(lanes, x); }
inline void store(float* y, Mask lanes, Widest v) { _mm512_mask_storeu_ps(y, lanes, v); }

using Longs8 = uint64_t __attribute__((vector_size(64)));
// Returns the products of the lower halves of the lanes.
inline Longs8 low_product(Longs8 a, Longs8 b) {
  return reinterpret_cast<Longs8>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
