// Products of a narrow inner size that are never stored: every vector of the result goes from its
// registers into the step that uses it. Elements are summed in the order of gemm_rows,
// bit-identically.
#pragma once

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

template <typename V, int count, typename Step>
void product_tile(const NarrowProduct& p, int64_t row, int64_t col, const Step& step) {
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
#pragma GCC unroll 8
  for (int v = 0; v < count; ++v) step(sums[v], row * p.row_step + col + v * kWidth);
}

// Calls step(vector of the product, position of its first element) for the whole product.
template <typename Step>
void for_each_vector(const NarrowProduct& p, const Step& step) {
  constexpr int64_t kBlock = 8 * kLanes > 64 ? 64 : 8 * kLanes;
  for (int64_t row = 0; row < p.rows; ++row) {
    int64_t col = 0;
    for (; col + kBlock <= p.cols; col += kBlock) {
      product_tile<Widest, kBlock / kLanes>(p, row, col, step);
    }
    for (; col < p.cols; col += kLanesOf<Narrow>) product_tile<Narrow, 1>(p, row, col, step);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
