#include "emulator/kernels/gemm.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace poptorch::emulator {
namespace {

constexpr int kMaxRows = 6;      // of a register tile: 6 × 16 floats are 12 of 16 registers
constexpr int64_t kDepth = 256;  // of k at a time: a panel of b then fits in half of L1
constexpr int64_t kRowBlock = 96;
constexpr int64_t kRowsDepth = 64;  // of k at a time where b is not packed: its rows stay in L2

__m256i tail_mask(int64_t lanes) {
  alignas(32) static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kOnes + 8 - lanes));
}

struct Tile {
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_row;  // from one k to the next
  const float* bias;
  float* c;
  int64_t ldc;
  int64_t k;
  int64_t columns;  // 1..16
  bool accumulate;
  bool masked_b;        // b has no elements beyond `columns`
  bool resume = false;  // sums go on from what c holds
};

// R rows by two vectors. `full`: all sixteen columns.
template <int R, bool full>
void micro(const Tile& t) {
  __m256 low[R], high[R];
  const __m256i mask_low = tail_mask(std::min<int64_t>(t.columns, 8));
  const __m256i mask_high = tail_mask(std::max<int64_t>(t.columns - 8, 0));
  const bool masked = !full && t.masked_b;
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i) {
    const float* c = t.c + i * t.ldc;
    low[i] = high[i] = _mm256_setzero_ps();
    if (t.resume) {
      low[i] = full ? _mm256_loadu_ps(c) : _mm256_maskload_ps(c, mask_low);
      high[i] = full ? _mm256_loadu_ps(c + 8) : _mm256_maskload_ps(c + 8, mask_high);
    }
  }
  const float *a = t.a, *b = t.b;
  const int64_t a_row = t.a_row, a_col = t.a_col, b_row = t.b_row;
  auto step = [&](__m256 b0, __m256 b1) __attribute__((always_inline)) {
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i) {
      const __m256 x = _mm256_broadcast_ss(a + i * a_row);
      low[i] = _mm256_fmadd_ps(x, b0, low[i]);
      high[i] = _mm256_fmadd_ps(x, b1, high[i]);
    }
    a += a_col, b += b_row;
  };
  if (masked) {
    for (int64_t k = 0; k < t.k; ++k) {
      step(_mm256_maskload_ps(b, mask_low), _mm256_maskload_ps(b + 8, mask_high));
    }
  } else {
    for (int64_t k = 0; k < t.k; ++k) step(_mm256_loadu_ps(b), _mm256_loadu_ps(b + 8));
  }
  __m256 bias_low = _mm256_setzero_ps(), bias_high = _mm256_setzero_ps();
  if (t.bias) {
    bias_low = _mm256_maskload_ps(t.bias, mask_low);
    bias_high = _mm256_maskload_ps(t.bias + 8, mask_high);
  }
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i) {
    float* c = t.c + i * t.ldc;
    if constexpr (full) {
      if (t.accumulate) {
        low[i] = _mm256_add_ps(_mm256_loadu_ps(c), low[i]);
        high[i] = _mm256_add_ps(_mm256_loadu_ps(c + 8), high[i]);
      }
      _mm256_storeu_ps(c, _mm256_add_ps(low[i], bias_low));
      _mm256_storeu_ps(c + 8, _mm256_add_ps(high[i], bias_high));
    } else {
      if (t.accumulate) {
        low[i] = _mm256_add_ps(_mm256_maskload_ps(c, mask_low), low[i]);
        high[i] = _mm256_add_ps(_mm256_maskload_ps(c + 8, mask_high), high[i]);
      }
      _mm256_maskstore_ps(c, mask_low, _mm256_add_ps(low[i], bias_low));
      _mm256_maskstore_ps(c + 8, mask_high, _mm256_add_ps(high[i], bias_high));
    }
  }
}

template <bool full>
void run_tile(int rows, const Tile& t) {
  switch (rows) {
    case 1:
      return micro<1, full>(t);
    case 2:
      return micro<2, full>(t);
    case 3:
      return micro<3, full>(t);
    case 4:
      return micro<4, full>(t);
    case 5:
      return micro<5, full>(t);
    default:
      return micro<6, full>(t);
  }
}

// Calls f(first, rows) for panels of at most kMaxRows rows, as even as can be.
template <typename F>
void for_row_panels(int64_t m, F f) {
  const int64_t panels = (m + kMaxRows - 1) / kMaxRows;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t first = m * p / panels;
    f(first, static_cast<int>(m * (p + 1) / panels - first));
  }
}

// Lays `rows` of a as [k][rows], so that a column-major a is read once and in order.
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

void pack_rows(const MatrixView& a, int rows, int64_t k, float* out) {
  switch (rows) {
    case 1:
      return pack_rows_of<1>(a, k, out);
    case 2:
      return pack_rows_of<2>(a, k, out);
    case 3:
      return pack_rows_of<3>(a, k, out);
    case 4:
      return pack_rows_of<4>(a, k, out);
    case 5:
      return pack_rows_of<5>(a, k, out);
    default:
      return pack_rows_of<6>(a, k, out);
  }
}

float sum_of(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

struct Dots {
  const float* a;
  int64_t a_row;
  const float* b;
  int64_t b_col;
  const float* bias;
  float* c;
  int64_t ldc, k;
};

template <int R, int C>
void dots(const Dots& t) {
  __m256 sums[R][C];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sums[i][j] = _mm256_setzero_ps();
  }
  auto step = [&](auto load) __attribute__((always_inline)) {
    __m256 x[R];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) x[i] = load(t.a + i * t.a_row);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      const __m256 y = load(t.b + j * t.b_col);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) sums[i][j] = _mm256_fmadd_ps(x[i], y, sums[i][j]);
    }
  };
  int64_t p = 0;
  for (; p + 8 <= t.k; p += 8) {
    step([p](const float* x) __attribute__((always_inline)) { return _mm256_loadu_ps(x + p); });
  }
  if (p < t.k) {
    const __m256i mask = tail_mask(t.k - p);
    step([p, mask](const float* x)
             __attribute__((always_inline)) { return _mm256_maskload_ps(x + p, mask); });
  }
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < C; ++j) {
      float* c = t.c + i * t.ldc + j;
      const float value = sum_of(sums[i][j]);
      *c = t.bias ? value + t.bias[j] : value;
    }
  }
}

template <int R>
void dot_row(int64_t n, const MatrixView& b, Dots t) {
  constexpr int kWide = R == 1 ? 8 : R == 2 ? 5 : 3;
  int64_t j = 0;
  auto advance = [&](int64_t by) {
    j += by, t.b += by * b.col, t.c += by;
    if (t.bias) t.bias += by;
  };
  while (j + kWide <= n) dots<R, kWide>(t), advance(kWide);
  while (j < n) dots<R, 1>(t), advance(1);
}

}  // namespace

namespace {

// Eight columns of eight: out[q * kPanel + j] = in[q + j * stride].
void transpose_eight(const float* in, int64_t stride, float* out) {
  __m256 r[8], t[8];
  for (int j = 0; j < 8; ++j) r[j] = _mm256_loadu_ps(in + j * stride);
  for (int j = 0; j < 8; j += 2) {
    t[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);
    t[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
  }
  for (int j = 0; j < 8; j += 4) {
    r[j] = _mm256_shuffle_ps(t[j], t[j + 2], 0x44);
    r[j + 1] = _mm256_shuffle_ps(t[j], t[j + 2], 0xee);
    r[j + 2] = _mm256_shuffle_ps(t[j + 1], t[j + 3], 0x44);
    r[j + 3] = _mm256_shuffle_ps(t[j + 1], t[j + 3], 0xee);
  }
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(out + j * kPanel, _mm256_permute2f128_ps(r[j], r[j + 4], 0x20));
    _mm256_storeu_ps(out + (j + 4) * kPanel, _mm256_permute2f128_ps(r[j], r[j + 4], 0x31));
  }
}

void pack_columns(const float* in, int64_t row, int64_t col, int64_t k, int64_t width, float* out) {
  int64_t p = 0;
  for (; row == 1 && width == kPanel && p + 8 <= k; p += 8) {
    transpose_eight(in + p, col, out + p * kPanel);
    transpose_eight(in + p + 8 * col, col, out + p * kPanel + 8);
  }
  for (; p < k; ++p) {
    for (int64_t j = 0; j < width; ++j) out[p * kPanel + j] = in[p * row + j * col];
  }
}

}  // namespace

void pack_panels(const MatrixView& b, int64_t k, int64_t n, int64_t first, int64_t last,
                 float* packed, int64_t panel_k) {
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t begin = panel * kPanel, width = std::min(kPanel, n - begin);
    float* out = packed + panel * kPanel * panel_k;
    if (width < kPanel) std::fill_n(out, kPanel * k, 0.0f);
    const float* in = b.data + begin * b.col;
    if (b.col != 1) {
      pack_columns(in, b.row, b.col, k, width, out);
    } else if (width == kPanel) {
      for (int64_t p = 0; p < k; ++p) {
        _mm256_storeu_ps(out + p * kPanel, _mm256_loadu_ps(in + p * b.row));
        _mm256_storeu_ps(out + p * kPanel + 8, _mm256_loadu_ps(in + p * b.row + 8));
      }
    } else {
      for (int64_t p = 0; p < k; ++p) std::copy_n(in + p * b.row, width, out + p * kPanel);
    }
  }
}

int64_t gemm_scratch_floats(int64_t m, int64_t k) {
  return std::min(m, kRowBlock) * std::min(k, kDepth);
}

void gemm_packed(int64_t m, int64_t n, int64_t k, const MatrixView& a, const float* packed,
                 int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
                 float* scratch) {
  for (int64_t top = 0; top < m; top += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, m - top);
    for (int64_t p = 0; p < k || p == 0; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      const bool pack = a.col != 1;
      for_row_panels(rows, [&](int64_t first, int count) {
        if (pack) pack_rows(a.from(top + first, p), count, depth, scratch + first * depth);
      });
      for (int64_t j = 0; j < n; j += kPanel) {
        for_row_panels(rows, [&](int64_t first, int count) {
          const MatrixView left = a.from(top + first, p);
          const bool last = p + kDepth >= k;
          const Tile tile{.a = pack ? scratch + first * depth : left.data,
                          .a_row = pack ? 1 : left.row,
                          .a_col = pack ? count : 1,
                          .b = packed + j * panel_k + p * kPanel,
                          .b_row = kPanel,
                          .bias = last && bias ? bias + j : nullptr,
                          .c = c + (top + first) * ldc + j,
                          .ldc = ldc,
                          .k = depth,
                          .columns = std::min(kPanel, n - j),
                          .accumulate = accumulate || p > 0,
                          .masked_b = false};
          tile.columns == kPanel ? run_tile<true>(count, tile) : run_tile<false>(count, tile);
        });
      }
    }
  }
}

void gemm_rows(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
               const float* bias, float* c, int64_t ldc) {
  // Some rows of b at a time, over all columns: b streams from memory once, in order, and what one
  // panel of rows has read is near for the next. Sums go on from c, to the same bits.
  for (int64_t p = 0; p < k || p == 0; p += kRowsDepth) {
    const bool last = p + kRowsDepth >= k;
    for (int64_t j = 0; j < n; j += kPanel) {
      for_row_panels(m, [&](int64_t first, int count) {
        const Tile tile{.a = a.from(first, p).data,
                        .a_row = a.row,
                        .a_col = a.col,
                        .b = b.data + p * b.row + j,
                        .b_row = b.row,
                        .bias = last && bias ? bias + j : nullptr,
                        .c = c + first * ldc + j,
                        .ldc = ldc,
                        .k = std::min(kRowsDepth, k - p),
                        .columns = std::min(kPanel, n - j),
                        .accumulate = false,
                        .masked_b = true,
                        .resume = p > 0};
        tile.columns == kPanel ? run_tile<true>(count, tile) : run_tile<false>(count, tile);
      });
    }
  }
}

void gemm_dots(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
               const float* bias, float* c, int64_t ldc) {
  // Columns in blocks whose part of b stays in L2 while the rows pass over it.
  constexpr int64_t kColumns = 48;
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t width = std::min(kColumns, n - j);
    for (int64_t i = 0; i < m;) {
      const Dots t{.a = a.data + i * a.row,
                   .a_row = a.row,
                   .b = b.data + j * b.col,
                   .b_col = b.col,
                   .bias = bias ? bias + j : nullptr,
                   .c = c + i * ldc + j,
                   .ldc = ldc,
                   .k = k};
      const int64_t left = m - i;
      const int64_t rows = left >= 4 ? 4 : left;
      rows == 4   ? dot_row<4>(width, b, t)
      : rows == 3 ? dot_row<3>(width, b, t)
      : rows == 2 ? dot_row<2>(width, b, t)
                  : dot_row<1>(width, b, t);
      i += rows;
    }
  }
}

}  // namespace poptorch::emulator
