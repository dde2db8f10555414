// Halves of either type in memory: loads and stores that convert, and the transposition that packs
// them.
#pragma once

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// How elements are loaded into vectors of floats, and stored.
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

// Transposes 8 columns of 8 halves: out[q * out_row + j] = in[j * in_column + q]. Each pass moves
// one bit of an element's row number to its column number.
constexpr int kHalfBlock = 8;
inline void transpose_halves(const uint16_t* in, int64_t in_column, uint16_t* out,
                             int64_t out_row) {
  using Halves = uint16_t __attribute__((vector_size(16)));
  Halves r[8], t[8];
  for (int j = 0; j < 8; ++j) std::memcpy(&r[j], in + j * in_column, sizeof(Halves));
#pragma GCC unroll 3
  for (int pass = 0; pass < 3; ++pass) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      t[2 * j] = __builtin_shufflevector(r[j], r[j + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      t[2 * j + 1] = __builtin_shufflevector(r[j], r[j + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) r[j] = t[j];
  }
  for (int j = 0; j < 8; ++j) std::memcpy(out + j * out_row, &r[j], sizeof(Halves));
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
