// The packed forms of both operands of a product.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "emulator/kernels/base/transpose_block.hpp"
#include "emulator/kernels/sets/gemm_tiles.hpp"
#include "emulator/kernels/sets/half_elements.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Packs whole blocks of a panel of columns that are contiguous in memory; returns the rows packed.
inline int64_t pack_blocks(const float* in, int64_t col, int64_t k, float* out) {
  int64_t p = 0;
  for (; p + kBlock <= k; p += kBlock) {
    for (int64_t j = 0; j < kPanel; j += kBlock) {
      transpose_block(in + p + j * col, col, out + p * kPanel + j, kPanel);
    }
  }
  return p;
}
// The loop takes a line of each of a few columns at a time: columns are often a multiple of a page
// apart, and more of them would not stay in L1.
inline int64_t pack_blocks(const uint16_t* in, int64_t col, int64_t k, uint16_t* out) {
  constexpr int64_t kLine = 32;
  using Square = TransposeVector<uint16_t>;
  const int64_t whole = k / Square::kCount * Square::kCount;
  for (int64_t first = 0; first < whole; first += kLine) {
    const int64_t last = std::min(first + kLine, whole);
    for (int64_t j = 0; j < kPanel; j += Square::kCount) {
      for (int64_t p = first; p < last; p += Square::kCount) {
        Square::square(in + p + j * col, col, out + p * kPanel + j, kPanel);
      }
    }
  }
  return whole;
}

template <typename T>
void pack_columns(const T* in, int64_t row, int64_t col, int64_t k, int64_t width, T* out) {
  for (int64_t p = row == 1 && width == kPanel ? pack_blocks(in, col, k, out) : 0; p < k; ++p) {
    for (int64_t j = 0; j < width; ++j) out[p * kPanel + j] = in[p * row + j * col];
  }
}

template <typename T>
void pack_as(const OperandView& b, int64_t k, int64_t n, int64_t first, int64_t last, T* packed,
             int64_t panel_k) {
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t begin = panel * kPanel, width = std::min(kPanel, n - begin);
    T* out = packed + panel * kPanel * panel_k;
    if (width < kPanel) std::fill_n(out, kPanel * k, T{0});
    const T* in = b.from(0, begin).template as<T>();
    if (b.col != 1) {
      pack_columns(in, b.row, b.col, k, width, out);
    } else if (width == kPanel) {
      for (int64_t p = 0; p < k; ++p) {
        std::memcpy(out + p * kPanel, in + p * b.row, kPanel * sizeof(T));
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

// Converts a column of halves.
inline void copy_column(const OperandView& a, int64_t rows, float* out) {
  if (a.row == 1) return to_floats(a.element, a.as<uint16_t>(), out, rows);
  for (int64_t i = 0; i < rows; ++i) {
    to_floats(a.element, a.from(i, 0).as<uint16_t>(), out + i, 1);
  }
}

// A block of rows of a, as tiles read it.
struct LeftBlock {
  MatrixView a;  // in place, or floats in scratch
  bool in_panels = false;
  int64_t depth = 0;

  MatrixView panel(int64_t first, int count) const {
    return in_panels ? MatrixView{a.data + first * depth, 1, count} : a.from(first, 0);
  }
};

// Packs the columns [p, p + count) of a block of `depth` columns.
inline void pack_left(const MatrixView& a, int64_t rows, int64_t depth, int64_t p, int64_t count,
                      float* out) {
  constexpr std::make_integer_sequence<int, kMaxRows> kRows;
  for_row_panels(rows, [&](int64_t first, int width) {
    pack_rows(kRows, a.from(first, 0), width, count, out + first * depth + p * width);
  });
}

// Makes a block of at most kRowBlock rows and kDepth columns; `scratch` is not used for row-major
// floats.
inline LeftBlock left_block(const OperandView& a, int64_t rows, int64_t depth, float* scratch) {
  if (a.element == Element::kFloat) {
    if (a.col == 1) return {.a = a.floats()};
    pack_left(a.floats(), rows, depth, 0, depth, scratch);
    return {.a = {scratch, 0, 0}, .in_panels = true, .depth = depth};
  }
  if (a.col == 1) {
    for (int64_t i = 0; i < rows; ++i) {
      to_floats(a.element, a.from(i, 0).as<uint16_t>(), scratch + i * depth, depth);
    }
    return {.a = {scratch, depth, 1}};
  }
  constexpr int64_t kColumns = 16;  // at once
  float held[kColumns * kRowBlock];
  for (int64_t p = 0; p < depth; p += kColumns) {
    const int64_t count = std::min(kColumns, depth - p);
    for (int64_t q = 0; q < count; ++q) {
      copy_column(a.from(0, p + q), rows, held + q * kRowBlock);
    }
    pack_left({held, 1, kRowBlock}, rows, depth, p, count, scratch);
  }
  return {.a = {scratch, 0, 0}, .in_panels = true, .depth = depth};
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
