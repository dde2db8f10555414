// Reductions of a run of floats in sixteen interleaved lanes. They run at vector speed, and the
// result depends on the run's data and length alone.
#pragma once

#include <cmath>
#include <cstdint>

#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET::lanes {

constexpr int kLanes = 16;

// Folds lanes pairwise: 0+8, 1+9, ... then 0+4, ...
template <int count = kLanes, typename Join>
float fold(float* lane, Join join) {
  for (int half = count / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] = join(lane[i], lane[i + half]);
  }
  return lane[0];
}

// Computes join(join(start, term(0)), term(kLanes))... lane by lane; terms beyond n count as
// `start`. Joins that give the same in any order may have more lanes, which hide their latency.
template <int count = kLanes, typename Term, typename Join>
float reduce(int64_t n, float start, Term term, Join join) {
  float lane[count];
  for (float& x : lane) x = start;
  int64_t i = 0;
  for (; i + count <= n; i += count) {
#pragma GCC unroll 1  // unrolled whole, it would become scalar code
    for (int l = 0; l < count; ++l) lane[l] = join(lane[l], term(i + l));
  }
  for (int l = 0; i + l < n; ++l) lane[l] = join(lane[l], term(i + l));
  return fold<count>(lane, join);
}

template <typename Term>
float sum(int64_t n, Term term) {
  return reduce(n, 0.0f, term, [](float a, float b) { return a + b; });
}
// Returns the greatest number; NaN is skipped.
inline float max(const float* x, int64_t n) {
  return reduce(
      n, -INFINITY, [x](int64_t i) { return x[i]; },
      [](float a, float b) { return b > a ? b : a; });
}

}  // namespace poptorch::emulator::inline POPTORCH_SET::lanes
