// Vectors of floats under one set of names. Formulas are written once for a float and for a vector.
//
// The files of sets/ are compiled once for each instruction set; everything that has vectors, here
// and there, is in the inline namespace POPTORCH_SET, so that no two builds share a function.
// Arithmetic is that of the compiler's vector types. A header for each instruction set adds what
// these do not have: fmadd, root, halves, masks, and the numbers of lanes and registers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace poptorch::emulator::inline POPTORCH_SET {

using Floats4 = float __attribute__((vector_size(16)));

template <typename V>
constexpr int kLanesOf = sizeof(V) / sizeof(float);

template <typename V>
V load(const float* x) {
  V v;
  std::memcpy(&v, x, sizeof(V));
  return v;
}
template <typename V>
void store(float* y, V v) {
  std::memcpy(y, &v, sizeof(V));
}

// Returns a vector with `x` in every lane.
template <typename V>
V spread(float x) {
  if constexpr (std::is_same_v<V, float>) {
    return x;
  } else {
    return x - V{};
  }
}

// Returns floats as bfloat16, in the lower halves of words: rounded to nearest, ties to even. A NaN
// becomes quiet.
template <typename Words, typename V>
Words bfloat_bits(V x) {
  const Words bits = reinterpret_cast<Words>(x), nan = reinterpret_cast<Words>(x != x);
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (rounded & ~nan) | (((bits >> 16) | 0x40u) & nan);
}

inline float root(float x) { return std::sqrt(x); }

inline float sum_of(Floats4 v) {
  const Floats4 pairs = v + __builtin_shufflevector(v, v, 2, 3, 2, 3);
  return pairs[0] + pairs[1];
}

}  // namespace poptorch::emulator::inline POPTORCH_SET

#if defined(__AVX512F__)
#include "emulator/kernels/simd/avx512.hpp"
#elif defined(__AVX2__)
#include "emulator/kernels/simd/avx2.hpp"
#include "emulator/kernels/simd/avx2_random.hpp"
#elif defined(__SSE4_2__)
#include "emulator/kernels/simd/sse4.hpp"
#elif defined(__ARM_NEON)
#include "emulator/kernels/simd/neon.hpp"
#else
#error "no header of kernels/simd has the vectors of this instruction set"
#endif

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int kLanes = kLanesOf<Widest>;
using WidestWords = uint32_t __attribute__((vector_size(sizeof(Widest))));

// Whether the set's header rounds a pair of vectors at random; elsewhere, loops over lanes do.
#ifdef __AVX2__
constexpr bool kRoundsPairs = true;
#else
constexpr bool kRoundsPairs = false;
#endif

using WidestLongs = uint64_t __attribute__((vector_size(sizeof(Widest))));
using WidestDoubles = double __attribute__((vector_size(sizeof(Widest))));
#ifndef __AVX512F__
template <int first, int... i>
WidestDoubles half_as_doubles(Widest v, std::integer_sequence<int, i...>) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, (first + i)...), WidestDoubles);
}
// Converts the first half of the lanes, and the others.
inline void to_doubles(Widest v, WidestDoubles& low, WidestDoubles& high) {
  constexpr std::make_integer_sequence<int, kLanes / 2> kHalf;
  low = half_as_doubles<0>(v, kHalf);
  high = half_as_doubles<kLanes / 2>(v, kHalf);
}
#endif

// Loads 2 * kLanes elements: the even ones, then the odd ones.
inline void load_bfloats(const uint16_t* x, Widest* v) {
  WidestWords words;
  std::memcpy(&words, x, sizeof(words));
  v[0] = reinterpret_cast<Widest>(words << 16);
  v[1] = reinterpret_cast<Widest>(words & 0xffff0000u);
}
// Stores values that bfloat16 has.
inline void store_exact_bfloats(uint16_t* y, Widest even, Widest odd) {
  const auto a = reinterpret_cast<WidestWords>(even), b = reinterpret_cast<WidestWords>(odd);
  const WidestWords words = (a >> 16) | (b & 0xffff0000u);
  std::memcpy(y, &words, sizeof(words));
}
// Returns the lanes of a, followed by b, that have an even or an odd position.
template <int first, int... i>
Widest every_other(Widest a, Widest b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (2 * i + first)...);
}
inline Widest even_lanes(Widest a, Widest b) {
  return every_other<0>(a, b, std::make_integer_sequence<int, kLanes>());
}
inline Widest odd_lanes(Widest a, Widest b) {
  return every_other<1>(a, b, std::make_integer_sequence<int, kLanes>());
}
#ifndef __AVX2__
// Stores two vectors, one after the other.
inline void store_neighbours(uint16_t* y, Widest a, Widest b) {
  store_bfloat(y, a);
  store_bfloat(y + kLanes, b);
}
inline void store_bfloats(uint16_t* y, Widest even, Widest odd) {
  const WidestWords words = bfloat_bits<WidestWords>(even) | (bfloat_bits<WidestWords>(odd) << 16);
  std::memcpy(y, &words, sizeof(words));
}
#endif

#ifndef __AVX512BF16__
constexpr bool kMultipliesPairs = false;  // of bfloat16, in one instruction

// Adds the products of the upper halves of words, which are bfloat16, then those of the lower ones.
inline Widest add_products(Widest x, Widest y, Widest sum) {
  const auto a = reinterpret_cast<WidestWords>(x), b = reinterpret_cast<WidestWords>(y);
  const WidestWords upper = WidestWords{} + 0xffff0000u;
  sum = fmadd(reinterpret_cast<Widest>(a & upper), reinterpret_cast<Widest>(b & upper), sum);
  return fmadd(reinterpret_cast<Widest>(a << 16), reinterpret_cast<Widest>(b << 16), sum);
}
inline void store_normal_bfloats(uint16_t* y, Widest first, Widest second) {
  store_neighbours(y, first, second);
}
#endif

// Up to 32 columns as blocks of 16 × 16 pairs, contiguous along k. The second 16 columns lie a
// block apart.
struct RightMatrices {
  const uint32_t* words;
  int64_t block;
  int64_t steps;
  const uint32_t* last = nullptr;  // of a last step that is elsewhere, where 16 columns follow 16
};

#ifndef __AMX_BF16__
constexpr bool kMultipliesMatrices = false;  // of bfloat16, in one instruction: see amx_bf16.hpp
class MatrixRegisters {};
template <int left_parts, int right_parts>
void multiply_matrices(const MatrixRegisters&, int64_t rows, int64_t columns, const uint32_t* left,
                       int64_t left_block, const RightMatrices& right, float* sums);
#endif

}  // namespace poptorch::emulator::inline POPTORCH_SET

#ifdef __AVX512BF16__
#include "emulator/kernels/simd/avx512_bf16.hpp"
#endif
#ifdef __AMX_BF16__
#include "emulator/kernels/simd/amx_bf16.hpp"
#endif
