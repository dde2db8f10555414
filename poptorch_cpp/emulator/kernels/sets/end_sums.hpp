// Applies endings (base/ending.hpp) to sums in registers.
#pragma once

#include "emulator/kernels/base/ending.hpp"
#include "emulator/kernels/simd/simd.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

template <typename V>
V within(V x, float low, float high) {
  const V least = spread<V>(low), most = spread<V>(high);
  x = x < least ? least : x;
  return x > most ? most : x;
}

// Ends the sums of the block's first row.
inline void end_row(const Ending& e, const float* sums, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float y = sums[i];
    if (e.scale) y = vec::fma(y, e.scale[i], e.shift[i]);
    if (e.added) y = y + e.added[i];
    e.to[i] = within(y, e.low, e.high);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
