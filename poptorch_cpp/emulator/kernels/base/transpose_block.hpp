// Transposes matrices of elements of 1, 2, 4 or 8 bytes with vectors of 16 bytes, which every
// instruction set has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace poptorch::emulator {

template <typename T>
struct TransposeVector {
  static constexpr int kCount = 16 / sizeof(T);
  typedef T Vector __attribute__((vector_size(16)));

  // Interleaves the lower or the upper halves of two vectors.
  static Vector zip(Vector a, Vector b, bool upper) {
    if constexpr (kCount == 2) {
      return upper ? __builtin_shufflevector(a, b, 1, 3) : __builtin_shufflevector(a, b, 0, 2);
    } else if constexpr (kCount == 4) {
      return upper ? __builtin_shufflevector(a, b, 2, 6, 3, 7)
                   : __builtin_shufflevector(a, b, 0, 4, 1, 5);
    } else if constexpr (kCount == 8) {
      return upper ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                   : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    } else {
      return upper ? __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                             30, 15, 31)
                   : __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                             7, 23);
    }
  }

  // Transposes kCount x kCount elements. Interleaving rows i and i + kCount / 2 log2(kCount) times
  // brings every element to its place.
  [[gnu::always_inline]] static void square(const T* from, int64_t from_stride, T* to,
                                            int64_t to_stride) {
    Vector rows[kCount], next[kCount];
    for (int i = 0; i < kCount; ++i) std::memcpy(&rows[i], from + i * from_stride, 16);
    for (int size = 1; size < kCount; size *= 2) {
      for (int i = 0; i < kCount / 2; ++i) {
        next[2 * i] = zip(rows[i], rows[i + kCount / 2], false);
        next[2 * i + 1] = zip(rows[i], rows[i + kCount / 2], true);
      }
      for (int i = 0; i < kCount; ++i) rows[i] = next[i];
    }
    for (int i = 0; i < kCount; ++i) std::memcpy(to + i * to_stride, &rows[i], 16);
  }
};

// Copies the elements one by one: those of few rows or of few columns. A run of them stays in the
// cache while the next row or column is copied.
template <typename T>
[[gnu::noinline]] void transpose_edge(const T* from, int64_t from_stride, T* to, int64_t to_stride,
                                      int64_t rows, int64_t cols) {
  constexpr int64_t kRun = 256;
  for (int64_t c0 = 0; rows < cols && c0 < cols; c0 += kRun) {
    const int64_t c1 = std::min(cols, c0 + kRun);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = c0; c < c1; ++c) to[c * to_stride + r] = from[r * from_stride + c];
    }
  }
  for (int64_t r0 = 0; rows >= cols && r0 < rows; r0 += kRun) {
    const int64_t r1 = std::min(rows, r0 + kRun);
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = r0; r < r1; ++r) to[c * to_stride + r] = from[r * from_stride + c];
    }
  }
}

// Writes element [r, c] of `from`, which has `rows` rows of `cols` elements, to [c, r] of `to`.
// Strides lie between rows of `from` and between rows of `to`.
template <typename T>
void transpose_matrix(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                      int64_t cols) {
  if (rows == 0 || cols == 0) return;  // empty tensors may lie at null
  using Square = TransposeVector<T>;
  constexpr int64_t kLine = 64 / sizeof(T), kSide = Square::kCount;
  // A block fills whole cache lines of `to`, and stays in a few lines of `from`.
  constexpr int64_t kRows = std::max<int64_t>(16, kLine);
  const int64_t whole_rows = rows / kSide * kSide, whole_cols = cols / kSide * kSide;
  for (int64_t r0 = 0; r0 < whole_rows; r0 += kRows) {
    const int64_t r1 = std::min(whole_rows, r0 + kRows);
    for (int64_t c = 0; c < whole_cols; c += kSide) {
      // The processor does not recognise as many streams as `to` has rows.
      for (int64_t i = 0; kRows == kLine && r1 < whole_rows && i < kSide; ++i) {
        __builtin_prefetch(to + (c + i) * to_stride + r1, 1);
      }
      for (int64_t r = r0; r < r1; r += kSide) {
        Square::square(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
      }
    }
  }
  if (whole_cols < cols) {
    transpose_edge(from + whole_cols, from_stride, to + whole_cols * to_stride, to_stride,
                   whole_rows, cols - whole_cols);
  }
  if (whole_rows < rows) {
    transpose_edge(from + whole_rows * from_stride, from_stride, to + whole_rows, to_stride,
                   rows - whole_rows, cols);
  }
}

}  // namespace poptorch::emulator
