// Single-threaded f32 matrix products on blocks, the building stone of matmul, LSTM and attention.
//
// Every element of C is summed in an order that depends on the inner size k and on the chosen
// routine alone, so that any split of rows and columns gives the same bits.
#pragma once

#include <cstdint>

namespace poptorch::emulator {

// A view of floats: element (i, j) stands at data[i * row + j * col].
struct MatrixView {
  const float* data = nullptr;
  int64_t row = 0;
  int64_t col = 1;
  MatrixView from(int64_t i, int64_t j) const { return {data + i * row + j * col, row, col}; }
};

// Columns that stand together in a packed right-hand side.
constexpr int64_t kPanel = 16;

// Floats that b (k × n) takes when packed: panels of kPanel columns, the last padded with zeros.
inline int64_t packed_floats(int64_t k, int64_t n) {
  return (n + kPanel - 1) / kPanel * kPanel * k;
}
// Packs panels [first, last) of b into their places in `packed`, whose panels have `panel_k` rows,
// k of them, from `packed` on, to be filled here.
void pack_panels(const MatrixView& b, int64_t k, int64_t n, int64_t first, int64_t last,
                 float* packed, int64_t panel_k);

// Floats of scratch that gemm_packed needs for m rows.
int64_t gemm_scratch_floats(int64_t m, int64_t k);

// c = a · b + bias, or c += a · b when `accumulate`: m × n, rows of c are ldc apart, b from
// pack_panels beginning at the panel of its first column and the first of k rows. `bias` (n) may be
// nullptr.
void gemm_packed(int64_t m, int64_t n, int64_t k, const MatrixView& a, const float* packed,
                 int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
                 float* scratch);

// c = a · b + bias for a row-major b (b.col == 1) where it stands; for few rows.
void gemm_rows(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
               const float* bias, float* c, int64_t ldc);

// The same for a column-major b (b.row == 1) and a row-major a (a.col == 1): dot products.
void gemm_dots(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
               const float* bias, float* c, int64_t ldc);

// A product of narrow inner size that is never stored: see narrow_product.hpp.
struct NarrowProduct {
  static constexpr int64_t kColumns = 8;
  MatrixView a, b;  // rows × k, and k × cols with b.col == 1
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of kColumns
  int64_t k = 0;
  int64_t row_step = 0;  // from a row to the next of what the step works on
};

}  // namespace poptorch::emulator
