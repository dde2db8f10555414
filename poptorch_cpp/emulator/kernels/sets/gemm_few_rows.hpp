// Products of few rows with an unpacked right operand of halves, which is converted in registers.
#pragma once

#include "emulator/kernels/sets/gemm_packing.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int kFewRows = 4;  // more repay the conversion of a part of the right operand

// Adds the products of `depth` columns of a and rows of b to `columns` sums of R rows, of which the
// last vector may be partial. Sums begin at 0 or resume from c, and end with the bias.
template <Element element, int R, int V, bool full>
void add_few_rows(const MatrixView& a, const OperandView& b, int64_t depth, int64_t columns,
                  const float* bias, float* c, int64_t ldc, bool resume) {
  const Mask mask = first_lanes(columns - (V - 1) * kLanes);
  auto whole = [](int v) __attribute__((always_inline)) { return full || v < V - 1; };
  auto load_floats = [&](const float* x, int v) __attribute__((always_inline)) {
    return whole(v) ? load<Widest>(x + v * kLanes) : load(x + v * kLanes, mask);
  };
  Widest sums[R][V];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sums[i][v] = resume ? load_floats(c + i * ldc, v) : spread<Widest>(0);
    }
  }
  const uint16_t* row = b.as<uint16_t>();
  for (int64_t p = 0; p < depth; ++p, row += b.row) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const uint16_t* from = row + v * kLanes;
      const Widest y = whole(v) ? Elements<element>::template load_all<Widest>(from)
                                : Elements<element>::load_first(from, columns - (V - 1) * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) {
        sums[i][v] = fmadd(spread<Widest>(*a.from(i, p).data), y, sums[i][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Widest constant = bias ? load_floats(bias, v) : spread<Widest>(0);
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const Widest sum = sums[i][v] + constant;
      float* to = c + i * ldc + v * kLanes;
      whole(v) ? store(to, sum) : store(to, mask, sum);
    }
  }
}

// Adds the products of a part of k to R rows of c.
template <Element element, int R>
void add_part(const MatrixView& a, const OperandView& b, int64_t depth, int64_t n,
              const float* bias, float* c, int64_t ldc, bool resume) {
  constexpr int V = kRegisters == 32 ? 4 : 2;
  constexpr int64_t kColumns = V * kLanes;
  int64_t j = 0;
  for (; j + kColumns <= n; j += kColumns) {
    add_few_rows<element, R, V, true>(a, b.from(0, j), depth, kColumns, bias ? bias + j : nullptr,
                                      c + j, ldc, resume);
  }
  for (; j < n; j += kLanes) {
    add_few_rows<element, R, 1, false>(a, b.from(0, j), depth, std::min<int64_t>(kLanes, n - j),
                                       bias ? bias + j : nullptr, c + j, ldc, resume);
  }
}

// Computes c = a · b + bias for at most kFewRows rows, with the bits of the loops on floats.
template <Element element>
void by_few_rows(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
                 const float* bias, float* c, int64_t ldc) {
  static constexpr decltype(&add_part<element, 1>) kAdd[kFewRows] = {
      add_part<element, 1>, add_part<element, 2>, add_part<element, 3>, add_part<element, 4>};
  alignas(64) float held[kFewRows * kRowsDepth];
  for (int64_t p = 0; p < k || p == 0; p += kRowsDepth) {
    const int64_t depth = std::min(kRowsDepth, k - p);
    const OperandView block = a.from(0, p);
    const LeftBlock left = a.element == Element::kFloat ? LeftBlock{.a = block.floats()}
                                                        : left_block(block, m, depth, held);
    kAdd[m - 1](left.panel(0, static_cast<int>(m)), b.from(p, 0), depth, n,
                p + kRowsDepth >= k ? bias : nullptr, c, ldc, p > 0);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
