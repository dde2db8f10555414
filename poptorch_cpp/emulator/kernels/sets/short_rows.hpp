// Rows that are too short for vectors of their elements: blocks of rows are transposed, so that a
// vector has one element of each of several rows. Whether a row is short depends on its length
// alone, since the order of its sums does.
#pragma once

#include "emulator/kernels/base/row_kernel.hpp"
#include "emulator/kernels/base/transpose_block.hpp"
#include "emulator/kernels/sets/rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

constexpr int64_t kShortRow = 64;    // elements, at most
constexpr int64_t kRowsAtOnce = 64;  // of a block; element i of row r is at i * kRowsAtOnce + r

// The elements as the kernels read them in memory.
template <typename T>
auto* elements_of(T* x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return x;
  } else {
    return stored_at(x);
  }
}

// Transposes `count` rows, `step` apart, of n elements. Returns the columns of whole vectors; those
// after `count` are 0.
template <typename T>
int64_t rows_to_columns(const T* x, int64_t step, int64_t count, int64_t n, T* columns) {
  const int64_t width = round_up(count, kLanes);
  if (width != count) std::memset(columns, 0, n * kRowsAtOnce * sizeof(T));
  transpose_matrix(elements_of(x), step, elements_of(columns), kRowsAtOnce, count, n);
  return width;
}
template <typename T>
void columns_to_rows(const T* columns, T* y, int64_t step, int64_t count, int64_t n) {
  transpose_matrix(elements_of(columns), kRowsAtOnce, elements_of(y), step, n, count);
}

// Calls f(first, count) for blocks of the rows [first, end).
template <typename F>
void for_blocks_of_rows(int64_t first, int64_t end, F f) {
  for (int64_t row = first; row < end; row += kRowsAtOnce) {
    f(row, std::min(kRowsAtOnce, end - row));
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
