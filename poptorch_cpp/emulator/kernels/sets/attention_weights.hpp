// The weights of attention: softmax of the scores of queries, and the logarithm of the sums of
// powers. What they are does not depend on the instruction set.
#pragma once

#include "emulator/kernels/sets/rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Scores of a query are so many floats apart, so that loops have no rest.
constexpr int64_t kScoresUnit = lanes::kLanes;
constexpr int kScoreVectors = static_cast<int>(kScoresUnit) / kLanes;

// Calls f(k, scores) for all vectors; k counts the vectors of a unit.
template <typename F>
[[gnu::always_inline]] inline void for_scores(float* s, int64_t n, F f) {
  for (int64_t i = 0; i < n; i += kScoresUnit) {
    for (int k = 0; k < kScoreVectors; ++k) f(k, s + i + k * kLanes);
  }
}
template <typename Join>
[[gnu::always_inline]] inline float folded(const Widest* v, Join join) {
  float lane[kScoresUnit];
  for (int k = 0; k < kScoreVectors; ++k) store(lane + k * kLanes, v[k]);
  return lanes::fold(lane, join);
}

// Scales scores, and returns the greatest.
[[gnu::flatten]] inline float scaled_scores(float* s, int64_t n, float scale) {
  Widest best[kScoreVectors];
  for (Widest& each : best) each = spread<Widest>(-INFINITY);
  for_scores(s, n, [&](int k, float* at) __attribute__((always_inline)) {
    const Widest x = load<Widest>(at) * spread<Widest>(scale);
    store(at, x);
    best[k] = x > best[k] ? x : best[k];
  });
  return folded(best, [](float a, float b) { return b > a ? b : a; });
}

template <typename Pair>
[[gnu::flatten]] float powers_by_pairs(float* s, int64_t n, float top) {
  Pair sums = spread<Pair>(0);
  for (int64_t i = 0; i < n; i += kPaired) {
    const Pair scores = load_pair(s + i), powers = vec::exp(scores - top);
    store_pair(s + i, powers);
    sums = sums + powers;
  }
  const Widest both[] = {sums.a, sums.b};
  return folded(both, [](float a, float b) { return a + b; });
}
// Replaces scores by their powers, and returns the sum.
template <bool pairs = vec::kHasPairs>
[[gnu::flatten]] float powers_of_scores(float* s, int64_t n, float top) {
  if constexpr (pairs) return powers_by_pairs<vec::VectorPair>(s, n, top);
  Widest sums[kScoreVectors] = {};
  for_scores(s, n, [&](int k, float* at) __attribute__((always_inline)) {
    const Widest power = map_lanes([top](float x) { return vec::exp(x - top); }, load<Widest>(at));
    store(at, power);
    sums[k] += power;
  });
  return folded(sums, [](float a, float b) { return a + b; });
}

// The scores of at most kRows queries. Each step is a loop over all of them: it does not wait for
// the sums of a query, which take longer to fold than to add.
template <int64_t kRows>
struct ScoreRows {
  float* scores;
  int64_t step, rows;
  int64_t seen[kRows];  // keys
  float tops[kRows], totals[kRows];

  ScoreRows(float* all, int64_t apart, int64_t count) : scores(all), step(apart), rows(count) {}

  // Turns products into weights. `scale(r, s)` returns the factor that those of a query still need.
  template <typename Scale>
  void weigh(int64_t keys, Scale scale) {
    for (int64_t r = 0; r < rows; ++r) {
      float* s = scores + r * step;
      const int64_t end = round_up(seen[r], kScoresUnit);
      const float left = scale(r, s);
      std::fill(s + seen[r], s + end, -INFINITY);
      if (end < keys) std::fill(s + end, s + keys, 0.0f);
      tops[r] = scaled_scores(s, end, left);
    }
    for (int64_t r = 0; r < rows; ++r) {
      totals[r] = powers_of_scores(scores + r * step, round_up(seen[r], kScoresUnit),
                                   blind(r) ? 0.0f : tops[r]);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const Widest inverse = spread<Widest>(blind(r) ? 0.0f : 1.0f / totals[r]);
      for_scores(scores + r * step, round_up(seen[r], kScoresUnit),
                 [&](int, float* at) { store(at, load<Widest>(at) * inverse); });
    }
  }
  // Stores the logarithms of the sums of powers.
  [[gnu::flatten]] void log_sums(float* y) const {
#pragma GCC ivdep
    for (int64_t r = 0; r < rows; ++r) y[r] = tops[r] + vec::log(totals[r]);
    for (int64_t r = 0; r < rows; ++r) y[r] = blind(r) ? INFINITY : y[r];
  }

 private:
  bool blind(int64_t r) const { return tops[r] == -INFINITY; }  // no key is visible
};

}  // namespace poptorch::emulator::inline POPTORCH_SET
