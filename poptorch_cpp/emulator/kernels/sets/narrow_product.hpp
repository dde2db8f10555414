// Products of a narrow inner size that are never stored: every vector of the result goes from its
// registers into the step that uses it. Elements are summed in the order of gemm_rows,
// bit-identically. Everything is inlined: a step that was called would load its constants from
// memory for every vector.
#pragma once

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

template <typename V, int count, typename Use>
[[gnu::always_inline]] inline void product_tile(const NarrowProduct& p, int64_t row, int64_t col,
                                                const Use& use) {
  constexpr int kWidth = kLanesOf<V>;
  V sums[count];
#pragma GCC unroll 8
  for (int v = 0; v < count; ++v) sums[v] = spread<V>(0);
  const float *a = p.a.data + row * p.a.row, *b = p.b.data + col;
  for (int64_t k = 0; k < p.k; ++k, a += p.a.col, b += p.b.row) {
    const V x = spread<V>(*a);
#pragma GCC unroll 8
    for (int v = 0; v < count; ++v) sums[v] = fmadd(x, load<V>(b + v * kWidth), sums[v]);
  }
  use(sums, row * p.row_step + col);
}

// Calls use(array of vectors, position of its first element) for the whole product. An array has
// one vector, or an even number of them.
template <typename Use>
[[gnu::always_inline]] inline void for_each_tile(const NarrowProduct& p, const Use& use) {
  constexpr int kMany = 8, kFew = 4;  // vectors of a tile
  for (int64_t row = 0; row < p.rows; ++row) {
    int64_t col = 0;
    for (; col + kMany * kLanes <= p.cols; col += kMany * kLanes) {
      product_tile<Widest, kMany>(p, row, col, use);
    }
    if (col + kFew * kLanes <= p.cols) {
      product_tile<Widest, kFew>(p, row, col, use);
      col += kFew * kLanes;
    }
    for (; col + kLanes <= p.cols; col += kLanes) product_tile<Widest, 1>(p, row, col, use);
    for (; col < p.cols; col += kLanesOf<Narrow>) product_tile<Narrow, 1>(p, row, col, use);
  }
}

// Calls step(vector of the product, position of its first element) for the whole product.
template <typename Step>
[[gnu::always_inline]] inline void for_each_vector(const NarrowProduct& p, const Step& step) {
  for_each_tile(
      p, [&]<typename V, size_t count>(V(&sums)[count], int64_t at) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (size_t v = 0; v < count; ++v) step(sums[v], at + v * kLanesOf<V>);
      });
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
