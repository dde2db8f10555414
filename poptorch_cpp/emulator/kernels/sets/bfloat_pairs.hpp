// Pairs of bfloat16 in words: the element of an even position is in the upper half, the next one in
// the lower half. add_products() then adds products in the order of the positions, as a loop of
// fmadd does, with the same bits; it takes denormals as zeros. Routines therefore look for them
// first, and multiply floats where an operand has one.
#pragma once

#include <algorithm>
#include <cstring>

#include "emulator/kernels/sets/half_elements.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

using WidestHalves = uint16_t __attribute__((vector_size(sizeof(Widest))));

// Returns whether a comparison holds for a lane. Its lanes have all bits or none.
template <typename Lanes>
bool any_of(const Lanes& lanes) {
  uint64_t words[sizeof(lanes) / sizeof(uint64_t)];
  std::memcpy(words, &lanes, sizeof(lanes));
  uint64_t any = 0;
  for (const uint64_t word : words) any |= word;
  return any != 0;
}

// Looks for denormals in vectors of bfloat16.
class DenormalSearch {
 public:
  void see(WidestHalves x) {
    // Without the sign, zeros wrap to the greatest numbers, and denormals are the least ones.
    const WidestHalves magnitude = x + x - 2;
    least_ = magnitude < least_ ? magnitude : least_;
  }
  bool found() const { return any_of(least_ < 2 * 0x80 - 2); }

 private:
  WidestHalves least_ = WidestHalves{} - 1;
};

inline WidestHalves load_halves(const void* x) {
  WidestHalves v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}
// Loads the first `count` elements; the others are 0.
inline WidestHalves load_halves(const uint16_t* x, int64_t count) {
  WidestHalves v{};
  std::memcpy(&v, x, static_cast<size_t>(count) * sizeof(uint16_t));
  return v;
}

// Looks for denormals in n contiguous elements.
inline void search(DenormalSearch& denormals, const uint16_t* x, int64_t n) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) denormals.see(load_halves(x + i));
  if (i < n) denormals.see(load_halves(x + i, n - i));
}

inline uint32_t pair_of(uint16_t first, uint16_t second) {
  return static_cast<uint32_t>(first) << 16 | second;
}

// Stores n pairs of neighbours.
inline void pair_neighbours(const uint16_t* x, int64_t n, uint32_t* pairs) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    WidestWords words;
    std::memcpy(&words, x + 2 * i, sizeof(words));
    words = words << 16 | words >> 16;
    std::memcpy(pairs + i, &words, sizeof(words));
  }
  for (; i < n; ++i) pairs[i] = pair_of(x[2 * i], x[2 * i + 1]);
}
// Stores the pairs of the elements of two rows of n.
inline void pair_rows(const uint16_t* x, const uint16_t* next, int64_t n, uint32_t* pairs) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) pairs[i] = pair_of(x[i], next[i]);
}

// Stores the first elements of n pairs in a row of floats, and the second ones in another.
inline void unpair(const uint32_t* pairs, int64_t n, float* first, float* second) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t upper = pairs[i] & 0xffff0000u, lower = pairs[i] << 16;
    first[i] = __builtin_bit_cast(float, upper);
    second[i] = __builtin_bit_cast(float, lower);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
