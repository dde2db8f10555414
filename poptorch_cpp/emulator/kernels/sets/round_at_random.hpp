// Random rounding of floats in registers to half types. Two neighbouring elements use a random
// word: see reference/rounding_bits.hpp.
#pragma once

#include <algorithm>
#include <type_traits>

#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/sets/half_elements.hpp"
#include "emulator/kernels/sets/neighbour_words.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

inline constexpr uint32_t kInfiniteBits = 0x7f800000;

// Each adds as many random bits as the format drops, and drops the sum of both.
inline float random_bfloat(float x, uint32_t random) {
  const uint32_t all = vec::bits(x), magnitude = all & 0x7fffffff;
  return vec::bits(magnitude > kInfiniteBits ? all : (all + random) & 0xffff0000u);
}

inline float random_half(float x, uint32_t random) {
  constexpr uint32_t kLeast = 0x38800000, kOverflow = 0x47800000;  // 2^-14, 65536
  const uint32_t all = vec::bits(x), magnitude = all & 0x7fffffff;
  // Numbers below 2^-14 become multiples of 2^-24. Of the two parts, one is always 2^-14.
  const float small = vec::bits(std::min(magnitude, kLeast));
  const auto fixed = static_cast<uint32_t>(static_cast<int32_t>(small * 0x1p40f)) + random;
  const float multiple = static_cast<float>(static_cast<int32_t>(fixed >> 16)) * 0x1p-24f;
  const uint32_t normal = (std::max(magnitude, kLeast) + (random >> 3)) & ~0x1fffu;
  const uint32_t finite = vec::bits(multiple) - kLeast + normal;
  const uint32_t other = std::max(magnitude, kInfiniteBits);
  return vec::bits((finite >= kOverflow ? other : finite) | (all & 0x80000000u));
}

struct ToHalf {
  static constexpr ir::DType kType = ir::DType::kF16;
  using Stored = Elements<Element::kHalf>;
  static float round(float x, uint32_t random) { return random_half(x, random); }
  template <typename Y, typename V, typename Words>
  static void put(Y* y, V a, V b, Words random) {
    put_halves_at_random(y, a, b, random);
  }
};
struct ToBfloat {
  static constexpr ir::DType kType = ir::DType::kBF16;
  using Stored = Elements<Element::kBfloat>;
  static float round(float x, uint32_t random) { return random_bfloat(x, random); }
  template <typename Y, typename V, typename Words>
  static void put(Y* y, V a, V b, Words random) {
    put_bfloats_at_random(y, a, b, random);
  }
};

// Rounds kRounded elements to floats, or to halves in memory.
template <typename To, typename Y>
[[gnu::always_inline]] inline void round_by_words(const float* x, Y* y, WidestWords words) {
  if constexpr (kRoundsPairs) {
    To::put(y, load<Widest>(x), load<Widest>(x + kLanes), words);
  } else {
    uint16_t random[kRounded];
    std::memcpy(random, &words, sizeof(random));
    float rounded[kRounded];
#pragma GCC unroll 1
#pragma GCC ivdep
    for (int k = 0; k < kRounded; ++k) rounded[k] = To::round(x[k], random[k]);
    for (int k = 0; k < kRounded; k += kLanes) {
      if constexpr (std::is_same_v<Y, float>) {
        store(y + k, load<Widest>(rounded + k));
      } else {
        To::Stored::store_all(y + k, load<Widest>(rounded + k));
      }
    }
  }
}

// Rounds elements begin to end of kRounded ones.
template <typename To, typename Y>
[[gnu::noinline]] void round_some(const float* x, Y* y, int64_t begin, int64_t end, uint32_t index,
                                  const uint32_t* key) {
  float held[kRounded] = {};
  Y rounded[kRounded];
  std::copy(x, x + (end - begin), held + begin);
  round_by_words<To>(held, rounded, random_words(index, key));
  std::copy(rounded + begin, rounded + end, y);
}

// Rounds n elements of any index.
template <typename To, typename Y>
void round_elements(const float* x, Y* y, int64_t n, uint32_t index, const uint32_t* key) {
  if (const int64_t before = index % kAligned; before != 0) {
    const int64_t end = std::min<int64_t>(before + n, kRounded);
    round_some<To>(x, y, before, end, index - static_cast<uint32_t>(before), key);
    const int64_t done = end - before;
    x += done, y += done, n -= done, index += static_cast<uint32_t>(done);
  }
  const int64_t i =
      with_words(n, index, key, [&](int64_t k, WidestWords words) __attribute__((always_inline)) {
        round_by_words<To>(x + k, y + k, words);
      });
  if (i < n) round_some<To>(x + i, y + i, 0, n - i, index + static_cast<uint32_t>(i), key);
}

// Rounds two vectors of neighbouring elements to halves in memory.
template <typename To, typename V>
[[gnu::always_inline]] inline void store_at_random(uint16_t* y, V a, V b, uint32_t index,
                                                   const uint32_t* key) {
  if constexpr (kRoundsPairs && kLanesOf<V> == kLanes) {
    if (index % kAligned == 0) [[likely]]
      return To::put(y, a, b, random_words(index, key));
  }
  float held[2 * kLanesOf<V>];
  store(held, a);
  store(held + kLanesOf<V>, b);
  round_elements<To>(held, y, 2 * kLanesOf<V>, index, key);
}
// The same for one vector.
template <typename To, typename V>
[[gnu::always_inline]] inline void store_at_random(uint16_t* y, V a, uint32_t index,
                                                   const uint32_t* key) {
  constexpr uint32_t kWidth = kLanesOf<V>;
  if constexpr (kRoundsPairs) {
    const uint32_t within = index % kAligned;
    if (within + kWidth <= kAligned) {
      float block[kRounded] = {};
      uint16_t rounded[kRounded];
      store(block + within, a);
      round_by_words<To>(block, rounded, random_words(index - within, key));
      std::memcpy(y, rounded + within, kWidth * sizeof(uint16_t));
      return;
    }
  }
  float held[kWidth];
  store(held, a);
  round_elements<To>(held, y, kWidth, index, key);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
