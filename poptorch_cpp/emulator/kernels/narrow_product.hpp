// Products of a narrow inner size that are never stored: every vector of the result goes from its
// registers into the step that uses it. Elements are summed as gemm_rows does, to the same bits.
#pragma once

#include <immintrin.h>

#include "emulator/kernels/gemm.hpp"

namespace poptorch::emulator {

constexpr int64_t kVector = 8;  // floats

struct NarrowProduct {
  MatrixView a, b;  // rows × k, and k × cols with b.col == 1
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of kVector
  int64_t k = 0;
  int64_t row_step = 0;  // from a row to the next of what the step works on
};

template <int V, typename Step>
void product_tile(const NarrowProduct& p, int64_t row, int64_t col, const Step& step) {
  __m256 sums[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) sums[v] = _mm256_setzero_ps();
  const float *a = p.a.data + row * p.a.row, *b = p.b.data + col;
  for (int64_t k = 0; k < p.k; ++k, a += p.a.col, b += p.b.row) {
    const __m256 x = _mm256_broadcast_ss(a);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      sums[v] = _mm256_fmadd_ps(x, _mm256_loadu_ps(b + v * kVector), sums[v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) step(sums[v], row * p.row_step + col + v * kVector);
}

// step(vector of the product, its first element's place) for all of it.
template <typename Step>
void for_each_vector(const NarrowProduct& p, const Step& step) {
  constexpr int kWide = 8;
  for (int64_t row = 0; row < p.rows; ++row) {
    int64_t col = 0;
    for (; col + kWide * kVector <= p.cols; col += kWide * kVector) {
      product_tile<kWide>(p, row, col, step);
    }
    for (; col < p.cols; col += kVector) product_tile<1>(p, row, col, step);
  }
}

}  // namespace poptorch::emulator
