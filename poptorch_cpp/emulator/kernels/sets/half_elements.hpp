// Halves of either type in memory: loads and stores that convert.
#pragma once

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Loads elements into vectors of floats, and stores them.
template <Element element>
struct Elements {
  using Stored = uint16_t;
  template <typename V>
  static V load_all(const uint16_t* x) {
    if constexpr (element == Element::kHalf) {
      return load_half<V>(x);
    } else {
      return load_bfloat<V>(x);
    }
  }
  template <typename V>
  static void store_all(uint16_t* y, V v) {
    if constexpr (element == Element::kHalf) {
      store_half(y, v);
    } else {
      store_bfloat(y, v);
    }
  }
  static void store_two(uint16_t* y, Widest a, Widest b) {
    if constexpr (element == Element::kHalf) {
      store_half(y, a);
      store_half(y + kLanes, b);
    } else {
      store_neighbours(y, a, b);
    }
  }
  template <typename V>
  static V round(V x) {
    if constexpr (element == Element::kHalf) {
      return round_to_half(x);
    } else {
      return round_to_bfloat(x);
    }
  }
  // Loads the first `count` lanes; the others are 0.
  static Widest load_first(const uint16_t* x, int64_t count) {
    uint16_t held[kLanes] = {};
    std::memcpy(held, x, static_cast<size_t>(count) * sizeof(uint16_t));
    return load_all<Widest>(held);
  }
};
template <>
struct Elements<Element::kFloat> {
  using Stored = float;
  template <typename V>
  static V load_all(const float* x) {
    return load<V>(x);
  }
  template <typename V>
  static void store_all(float* y, V v) {
    store(y, v);
  }
  template <typename V>
  static V round(V x) {
    return x;
  }
  static Widest load_first(const float* x, int64_t count) { return load(x, first_lanes(count)); }
};

template <Element element>
void to_floats_of(const uint16_t* x, float* y, int64_t n) {
  using From = Elements<element>;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, From::template load_all<Widest>(x + i));
  if (i < n) store(y + i, first_lanes(n - i), From::load_first(x + i, n - i));
}

// Converts n halves that are contiguous.
inline void to_floats(Element element, const uint16_t* x, float* y, int64_t n) {
  if (element == Element::kHalf) {
    to_floats_of<Element::kHalf>(x, y, n);
  } else {
    to_floats_of<Element::kBfloat>(x, y, n);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
