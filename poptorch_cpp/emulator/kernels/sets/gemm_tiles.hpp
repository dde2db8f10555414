// Blocks of a product whose sums stay in registers: up to kMaxRows rows by two vectors of columns.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "emulator/kernels/sets/end_sums.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int kMaxRows = kRegisters == 32 ? 12 : 6;  // sums take 24 of 32 registers, or 12 of 16
constexpr int64_t kTileColumns = 2 * kLanes;

struct Tile {
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_row;     // from one k to the next
  int64_t b_vector;  // from one vector of columns to the next
  const float* bias;
  float* c;
  int64_t ldc;
  int64_t k;
  int64_t columns;  // 1..kTileColumns
  bool accumulate;
  bool masked_b;                // b ends after `columns`
  const float* sums = nullptr;  // from which sums resume, instead of 0
  int64_t sums_row = 0;
  const Ending* ending = nullptr;  // of the tile, instead of c
};

// Computes R rows by V vectors, the last of which has all its lanes when `full`. With `pairs`, a
// and b have words of two elements: see bfloat_pairs.hpp.
template <int R, int V, bool full, bool pairs>
void run_tile_of(const Tile& t) {
  Widest sums[R][V];
  const Mask mask = first_lanes(full ? kLanes : t.columns - (V - 1) * kLanes);
  auto whole = [](int v) __attribute__((always_inline)) { return full || v < V - 1; };
  auto load_c = [&](const float* c, int v) __attribute__((always_inline)) {
    return whole(v) ? load<Widest>(c + v * kLanes) : load(c + v * kLanes, mask);
  };
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      sums[i][v] = t.sums ? load_c(t.sums + i * t.sums_row, v) : spread<Widest>(0);
    }
  }
  // The prefetch loads lines of a distant result while the sums are computed.
  const float* result = t.ending ? t.ending->to : t.c;
  const int64_t row_step = t.ending ? t.ending->row_step : t.ldc;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) __builtin_prefetch(result + i * row_step + v * kLanes, 1);
  }
  // One pointer serves three rows: one for each row would exceed the registers.
  constexpr int kStep = 3, kPointers = (R + kStep - 1) / kStep;
  const float *a[kPointers], *b = t.b;
#pragma GCC unroll 4
  for (int p = 0; p < kPointers; ++p) a[p] = t.a + p * kStep * t.a_row;
  const int64_t a_row = t.a_row, a_col = t.a_col, b_row = t.b_row, b_vector = t.b_vector;
  auto step = [&](auto load_b) __attribute__((always_inline)) {
    Widest y[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) y[v] = load_b(b + v * b_vector, v);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      const Widest x = spread<Widest>(a[i / kStep][i % kStep * a_row]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        sums[i][v] = pairs ? add_products(x, y[v], sums[i][v]) : fmadd(x, y[v], sums[i][v]);
      }
    }
#pragma GCC unroll 4
    for (int p = 0; p < kPointers; ++p) a[p] += a_col;
    b += b_row;
  };
  if (!full && t.masked_b) {
    auto masked = [&](const float* x, int v) __attribute__((always_inline)) {
      return whole(v) ? load<Widest>(x) : load(x, mask);
    };
    for (int64_t k = 0; k < t.k; ++k) step(masked);
  } else {
    auto plain = [](const float* x, int) __attribute__((always_inline)) { return load<Widest>(x); };
    for (int64_t k = 0; k < t.k; ++k) step(plain);
  }
  const Ending e = t.ending ? *t.ending : Ending{.to = t.c, .row_step = t.ldc};
  const bool ends = t.ending != nullptr, scales = e.scale != nullptr, adds = e.added != nullptr;
  const float *c = t.c, *bias = t.bias;
  const int64_t ldc = t.ldc;
  const bool accumulates = t.accumulate;
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    const Widest constant = bias ? load_c(bias, v) : spread<Widest>(0);
    const Widest scale = scales ? load_c(e.scale, v) : spread<Widest>(1);
    const Widest shift = scales ? load_c(e.shift, v) : spread<Widest>(-0.0f);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      Widest sum = sums[i][v];
      if (accumulates) sum = load_c(c + i * ldc, v) + sum;
      sum = sum + constant;
      if (ends) {
        sum = fmadd(sum, scale, shift);  // by 1 and -0 if the ending does not scale
        if (adds) sum = sum + load_c(e.added + i * e.row_step, v);
        sum = within(sum, e.low, e.high);
      }
      float* to = e.to + i * e.row_step + v * kLanes;
      if (whole(v)) {
        store(to, sum);
      } else {
        store(to, mask, sum);
      }
    }
  }
}

template <int V, bool full, bool pairs, int... R>
constexpr std::array<void (*)(const Tile&), kMaxRows> tiles_of(std::integer_sequence<int, R...>) {
  return {run_tile_of<R + 1, V, full, pairs>...};
}

template <bool pairs = false>
void run_tile(int rows, const Tile& t) {
  constexpr std::make_integer_sequence<int, kMaxRows> kRows;
  static constexpr auto kOne = tiles_of<1, false, pairs>(kRows);
  static constexpr auto kOneFull = tiles_of<1, true, pairs>(kRows);
  static constexpr auto kTwo = tiles_of<2, false, pairs>(kRows);
  static constexpr auto kTwoFull = tiles_of<2, true, pairs>(kRows);
  const bool full = t.columns % kLanes == 0;
  const auto& tiles = t.columns > kLanes ? full ? kTwoFull : kTwo : full ? kOneFull : kOne;
  tiles[rows - 1](t);
}

// Calls f(first, rows) for panels of at most kMaxRows rows, as even as possible.
template <typename F>
void for_row_panels(int64_t m, F f) {
  const int64_t panels = (m + kMaxRows - 1) / kMaxRows;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t first = m * p / panels;
    f(first, static_cast<int>(m * (p + 1) / panels - first));
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
