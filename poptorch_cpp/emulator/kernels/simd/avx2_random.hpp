// Rounds pairs of vectors of AVX2 to halves at random, with the bits of random_half() and
// random_bfloat().
#pragma once

#include <immintrin.h>

#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

using Words8 = uint32_t __attribute__((vector_size(32)));
// Returns the words with the numbers `at`.
inline Words8 permuted(Words8 words, Words8 at) {
  return reinterpret_cast<Words8>(
      _mm256_permutevar8x32_epi32(reinterpret_cast<__m256i>(words), reinterpret_cast<__m256i>(at)));
}

// These round a and then b at random, each lane by 16 bits of `random`, in their order. They add
// the bits to the fraction that the type drops, and drop the rest of the sum.
struct RandomLanes {
  __m256i a, b;
};
inline RandomLanes random_lanes(__m256i random) {
  return {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(random)),
          _mm256_cvtepu16_epi32(_mm256_extracti128_si256(random, 1))};
}
inline UpperBfloats sums_with(Widest a, Widest b, const RandomLanes& random) {
  UpperBfloats sums{_mm256_add_epi32(_mm256_castps_si256(a), random.a),
                    _mm256_add_epi32(_mm256_castps_si256(b), random.b)};
  if (any_nan(a, b)) [[unlikely]]
    sums = {with_quiet_nan(sums.a, a), with_quiet_nan(sums.b, b)};
  return sums;
}
template <typename Words>
void put_bfloats_at_random(float* y, Widest a, Widest b, Words random) {
  const UpperBfloats sums = sums_with(a, b, random_lanes(reinterpret_cast<__m256i>(random)));
  const __m256i kept = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  store(y, Widest(_mm256_castsi256_ps(_mm256_and_si256(sums.a, kept))));
  store(y + kLanesOf<Widest>, Widest(_mm256_castsi256_ps(_mm256_and_si256(sums.b, kept))));
}
template <typename Words>
void put_bfloats_at_random(uint16_t* y, Widest a, Widest b, Words random) {
  store_upper(y, sums_with(a, b, random_lanes(reinterpret_cast<__m256i>(random))));
}
// The same for even and odd elements.
template <typename Words>
void put_bfloats_in_turn(uint16_t* y, Widest even, Widest odd, Words random) {
  const auto words = reinterpret_cast<__m256i>(random);
  const RandomLanes lanes{_mm256_and_si256(words, _mm256_set1_epi32(0xffff)),
                          _mm256_srli_epi32(words, 16)};
  store_upper_in_turn(y, sums_with(even, odd, lanes));
}

// Returns the magnitude of a half in the upper half of each word. Numbers below 2^-14 become
// multiples of 2^-24: the bits of a denormal half are such a multiple.
inline __m256i half_sums(Widest x, __m256i random) {
  constexpr int kOffset = (127 - 15) << 23, kInfinite = 31 << 23;  // of the exponents
  const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
  const __m256i normal = _mm256_min_epi32(_mm256_sub_epi32(magnitude, _mm256_set1_epi32(kOffset)),
                                          _mm256_set1_epi32(kInfinite));
  const __m256 scaled = _mm256_mul_ps(_mm256_castsi256_ps(magnitude), _mm256_set1_ps(0x1p40f));
  const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x38800000), magnitude);
  const __m256i sixteen_dropped =
      _mm256_blendv_epi8(_mm256_slli_epi32(normal, 3), _mm256_cvttps_epi32(scaled), is_small);
  return _mm256_add_epi32(sixteen_dropped, random);
}
inline __m256i with_half_nan(__m256i sums, Widest x) {
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_or_si256(sums, _mm256_and_si256(nan, _mm256_set1_epi32(0x7e000000)));
}
struct HalvesAtRandom {
  __m128i a, b;
};
inline HalvesAtRandom any_halves_at_random(Widest a, Widest b, const RandomLanes& random) {
  __m256i x = half_sums(a, random.a), y = half_sums(b, random.b);
  if (any_nan(a, b)) [[unlikely]]
    x = with_half_nan(x, a), y = with_half_nan(y, b);
  const __m256i magnitudes =
      _mm256_packus_epi32(_mm256_srli_epi32(x, 16), _mm256_srli_epi32(y, 16));
  const __m256i saturated = _mm256_packs_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
  const __m256i signs = _mm256_and_si256(saturated, _mm256_set1_epi16(-0x8000));
  const __m256i halves =
      _mm256_permute4x64_epi64(_mm256_or_si256(magnitudes, signs), kLanesInOrder);
  return {_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)};
}

// Returns whether all lanes are zero, or normal halves that do not become infinite.
inline bool are_normal_halves(Widest a, Widest b) {
  constexpr int kLeast = 0x38800000, kMost = 0x477fe000;  // 2^-14, 65504
  const __m256i no_sign = _mm256_set1_epi32(0x7fffffff), one = _mm256_set1_epi32(1);
  const __m256i x = _mm256_and_si256(_mm256_castps_si256(a), no_sign);
  const __m256i y = _mm256_and_si256(_mm256_castps_si256(b), no_sign);
  const __m256i least = _mm256_min_epu32(_mm256_sub_epi32(x, one), _mm256_sub_epi32(y, one));
  const __m256i small = _mm256_min_epu32(least, _mm256_set1_epi32(kLeast - 1));
  const __m256i is_normal = _mm256_cmpeq_epi32(small, _mm256_set1_epi32(kLeast - 1));
  const __m256i is_large = _mm256_cmpgt_epi32(_mm256_max_epi32(x, y), _mm256_set1_epi32(kMost - 1));
  return _mm256_movemask_epi8(_mm256_andnot_si256(is_large, is_normal)) == -1;
}
// Adds the thirteen bits that a normal half drops, and rounds towards zero.
inline __m128i normal_half_at_random(Widest x, __m256i random) {
  constexpr int kTruncated = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
  const __m256i sum = _mm256_add_epi32(_mm256_castps_si256(x), _mm256_srli_epi32(random, 3));
  return _mm256_cvtps_ph(_mm256_castsi256_ps(sum), kTruncated);
}
inline HalvesAtRandom halves_at_random(Widest a, Widest b, __m256i random) {
  const RandomLanes lanes = random_lanes(random);
  if (!are_normal_halves(a, b)) return any_halves_at_random(a, b, lanes);
  return {normal_half_at_random(a, lanes.a), normal_half_at_random(b, lanes.b)};
}
template <typename Words>
void put_halves_at_random(uint16_t* y, Widest a, Widest b, Words random) {
  const HalvesAtRandom rounded = halves_at_random(a, b, reinterpret_cast<__m256i>(random));
  auto* to = reinterpret_cast<__m128i*>(y);
  _mm_storeu_si128(to, rounded.a);
  _mm_storeu_si128(to + 1, rounded.b);
}
template <typename Words>
void put_halves_at_random(float* y, Widest a, Widest b, Words random) {
  const HalvesAtRandom rounded = halves_at_random(a, b, reinterpret_cast<__m256i>(random));
  store(y, Widest(_mm256_cvtph_ps(rounded.a)));
  store(y + kLanesOf<Widest>, Widest(_mm256_cvtph_ps(rounded.b)));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
