// This file is compiled once for each instruction set.
#include <cstring>

#include "emulator/kernels/sets/gemm_dots.hpp"
#include "emulator/kernels/sets/gemm_tiles.hpp"
#include "emulator/kernels/sets/parts.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

void pack_columns(const float* in, int64_t row, int64_t col, int64_t k, int64_t width, float* out) {
  int64_t p = 0;
  for (; row == 1 && width == kPanel && p + kBlock <= k; p += kBlock) {
    for (int64_t j = 0; j < kPanel; j += kBlock) {
      transpose_block(in + p + j * col, col, out + p * kPanel + j, kPanel);
    }
  }
  for (; p < k; ++p) {
    for (int64_t j = 0; j < width; ++j) out[p * kPanel + j] = in[p * row + j * col];
  }
}

void pack(const MatrixView& b, int64_t k, int64_t n, int64_t first, int64_t last, float* packed,
          int64_t panel_k) {
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t begin = panel * kPanel, width = std::min(kPanel, n - begin);
    float* out = packed + panel * kPanel * panel_k;
    if (width < kPanel) std::fill_n(out, kPanel * k, 0.0f);
    const float* in = b.data + begin * b.col;
    if (b.col != 1) {
      pack_columns(in, b.row, b.col, k, width, out);
    } else if (width == kPanel) {
      for (int64_t p = 0; p < k; ++p) {
        std::memcpy(out + p * kPanel, in + p * b.row, kPanel * sizeof(float));
      }
    } else {
      for (int64_t p = 0; p < k; ++p) std::copy_n(in + p * b.row, width, out + p * kPanel);
    }
  }
}

// Copies `rows` of a as [k][rows], so that a column-major a is read once and in order.
template <int rows>
void pack_rows_of(const MatrixView& a, int64_t k, float* out) {
  if (a.row == 1) {
    for (int64_t p = 0; p < k; ++p) {
      std::memcpy(out + p * rows, a.data + p * a.col, rows * sizeof(float));
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    for (int i = 0; i < rows; ++i) out[p * rows + i] = a.data[i * a.row + p * a.col];
  }
}

template <int... R>
void pack_rows(std::integer_sequence<int, R...>, const MatrixView& a, int rows, int64_t k,
               float* out) {
  static constexpr void (*kPack[])(const MatrixView&, int64_t, float*) = {pack_rows_of<R + 1>...};
  kPack[rows - 1](a, k, out);
}

void by_panels(int64_t m, int64_t n, int64_t k, const MatrixView& a, const float* b,
               int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
               float* scratch) {
  constexpr std::make_integer_sequence<int, kMaxRows> kRows;
  for (int64_t top = 0; top < m; top += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, m - top);
    for (int64_t p = 0; p < k || p == 0; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      const bool pack = a.col != 1;
      for_row_panels(rows, [&](int64_t first, int count) {
        if (pack) pack_rows(kRows, a.from(top + first, p), count, depth, scratch + first * depth);
      });
      for (int64_t j = 0; j < n; j += kTileColumns) {
        for_row_panels(rows, [&](int64_t first, int count) {
          const MatrixView left = a.from(top + first, p);
          const bool last = p + kDepth >= k;
          run_tile(count, {.a = pack ? scratch + first * depth : left.data,
                           .a_row = pack ? 1 : left.row,
                           .a_col = pack ? count : 1,
                           .b = b + j / kPanel * kPanel * panel_k + j % kPanel + p * kPanel,
                           .b_row = kPanel,
                           .b_vector = kLanes == kPanel ? panel_k * kPanel : kLanes,
                           .bias = last && bias ? bias + j : nullptr,
                           .c = c + (top + first) * ldc + j,
                           .ldc = ldc,
                           .k = depth,
                           .columns = std::min(kTileColumns, n - j),
                           .accumulate = accumulate || p > 0,
                           .masked_b = false});
        });
      }
    }
  }
}

void by_rows(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
             const float* bias, float* c, int64_t ldc) {
  // The loop takes some rows of b at a time, over all columns. b streams from memory once, in
  // order, and the part that one panel of rows reads stays in cache for the next. Sums resume from
  // c, bit-identically.
  for (int64_t p = 0; p < k || p == 0; p += kRowsDepth) {
    const bool last = p + kRowsDepth >= k;
    for (int64_t j = 0; j < n; j += kTileColumns) {
      for_row_panels(m, [&](int64_t first, int count) {
        run_tile(count, {.a = a.from(first, p).data,
                         .a_row = a.row,
                         .a_col = a.col,
                         .b = b.data + p * b.row + j,
                         .b_row = b.row,
                         .b_vector = kLanes,
                         .bias = last && bias ? bias + j : nullptr,
                         .c = c + first * ldc + j,
                         .ldc = ldc,
                         .k = std::min(kRowsDepth, k - p),
                         .columns = std::min(kTileColumns, n - j),
                         .accumulate = false,
                         .masked_b = true,
                         .resume = p > 0});
      });
    }
  }
}

}  // namespace

constinit const GemmRoutines kGemmRoutines = {pack, by_panels, by_rows, by_dots};

}  // namespace poptorch::emulator::inline POPTORCH_SET
