// Products as dot products of rows of a and columns of b, each of which is contiguous.
#pragma once

#include <algorithm>
#include <utility>

#include "emulator/kernels/sets/half_elements.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int64_t kDotRows = kRegisters == 32 ? 8 : 4;  // at once
// Returns the columns processed at once: sums and rows fit in the registers.
constexpr int dot_columns(int rows) {
  if (kRegisters == 32) return rows <= 2 ? 8 : rows <= 4 ? 4 : 2;
  return rows == 1 ? 8 : rows == 2 ? 5 : 3;
}

template <typename B>
struct Dots {
  const float* a;
  int64_t a_row;
  const typename B::Stored* b;
  int64_t b_col;
  const float* bias;
  float* c;
  int64_t ldc, k;
};

template <int R, int C, typename B>
void dots_of(const Dots<B>& t) {
  Widest sums[R][C];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sums[i][j] = spread<Widest>(0);
  }
  auto step = [&](auto load_a, auto load_b) __attribute__((always_inline)) {
    Widest x[R];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) x[i] = load_a(t.a + i * t.a_row);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      const Widest y = load_b(t.b + j * t.b_col);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) sums[i][j] = fmadd(x[i], y, sums[i][j]);
    }
  };
  int64_t p = 0;
  for (; p + kLanes <= t.k; p += kLanes) {
    // Hardware prefetching stops at page boundaries, so the next columns are prefetched here.
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) __builtin_prefetch(t.b + (C + j) * t.b_col + p);
    step([p](const float* x) __attribute__((always_inline)) { return load<Widest>(x + p); },
         [p](auto* y)
             __attribute__((always_inline)) { return B::template load_all<Widest>(y + p); });
  }
  if (p < t.k) {
    const Mask mask = first_lanes(t.k - p);
    step([p, mask](const float* x) __attribute__((always_inline)) { return load(x + p, mask); },
         [p, &t](auto* y) __attribute__((always_inline)) { return B::load_first(y + p, t.k - p); });
  }
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < C; ++j) {
      const float value = sum_of(sums[i][j]);
      t.c[i * t.ldc + j] = t.bias ? value + t.bias[j] : value;
    }
  }
}

template <int R, typename B>
void dot_rows_of(int64_t n, Dots<B> t) {
  constexpr int kWide = dot_columns(R);
  int64_t j = 0;
  auto advance = [&](int64_t by) {
    j += by, t.b += by * t.b_col, t.c += by;
    if (t.bias) t.bias += by;
  };
  while (j + kWide <= n) dots_of<R, kWide>(t), advance(kWide);
  while (j < n) dots_of<R, 1>(t), advance(1);
}

template <typename B, int... R>
void dot_rows(std::integer_sequence<int, R...>, int64_t rows, int64_t n, const Dots<B>& t) {
  static constexpr void (*kRows[])(int64_t, Dots<B>) = {dot_rows_of<R + 1, B>...};
  kRows[rows - 1](n, t);
}

template <typename B>
void by_dots_of(int64_t m, int64_t n, int64_t k, const MatrixView& a, const OperandView& b,
                const float* bias, float* c, int64_t ldc) {
  // Columns are processed in blocks whose part of b stays in L2 while the rows pass over it.
  constexpr int64_t kColumns = 48;
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t width = std::min(kColumns, n - j);
    for (int64_t i = 0; i < m;) {
      const int64_t rows = std::min(m - i, kDotRows);
      dot_rows<B>(std::make_integer_sequence<int, kDotRows>(), rows, width,
                  {.a = a.data + i * a.row,
                   .a_row = a.row,
                   .b = b.from(0, j).template as<typename B::Stored>(),
                   .b_col = b.col,
                   .bias = bias ? bias + j : nullptr,
                   .c = c + i * ldc + j,
                   .ldc = ldc,
                   .k = k});
      i += rows;
    }
  }
}

inline void by_dots(int64_t m, int64_t n, int64_t k, const MatrixView& a, const OperandView& b,
                    const float* bias, float* c, int64_t ldc) {
  const auto run = b.element == Element::kFloat  ? by_dots_of<Elements<Element::kFloat>>
                   : b.element == Element::kHalf ? by_dots_of<Elements<Element::kHalf>>
                                                 : by_dots_of<Elements<Element::kBfloat>>;
  run(m, n, k, a, b, bias, c, ldc);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
