// Single-threaded f32 matrix products on blocks, the building block of matmul, LSTM and attention.
//
// The order in which an element of C is summed depends only on the inner size k and the chosen
// routine. Any split of rows and columns is therefore bit-identical.
#pragma once

#include <cstdint>

namespace poptorch::emulator {

// A view of floats: element (i, j) is data[i * row + j * col].
struct MatrixView {
  const float* data = nullptr;
  int64_t row = 0;
  int64_t col = 1;
  MatrixView from(int64_t i, int64_t j) const { return {data + i * row + j * col, row, col}; }
};

// Number of columns that are contiguous in a packed right-hand side.
constexpr int64_t kPanel = 16;

// Returns the floats of a packed b (k × n): panels of kPanel columns, the last padded with zeros.
inline int64_t packed_floats(int64_t k, int64_t n) {
  return (n + kPanel - 1) / kPanel * kPanel * k;
}
// Packs k rows of the panels [first, last) of b. `packed` is the address of the first of these rows
// in panel 0; its panels have `panel_k` rows each.
void pack_panels(const MatrixView& b, int64_t k, int64_t n, int64_t first, int64_t last,
                 float* packed, int64_t panel_k);

// Returns the floats of scratch that gemm_packed needs for m rows.
int64_t gemm_scratch_floats(int64_t m, int64_t k);

// Computes c = a · b + bias, or c += a · b when `accumulate`. c is m × n with rows ldc apart.
// `packed`, from pack_panels, begins at the panel of b's first column and the first of k rows.
// `bias` (n) may be nullptr.
void gemm_packed(int64_t m, int64_t n, int64_t k, const MatrixView& a, const float* packed,
                 int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
                 float* scratch);

// Computes c = a · b + bias for an unpacked, row-major b (b.col == 1) and few rows.
void gemm_rows(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
               const float* bias, float* c, int64_t ldc);

// Does the same for a column-major b (b.row == 1) and a row-major a (a.col == 1): dot products.
void gemm_dots(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
               const float* bias, float* c, int64_t ldc);

// A product of narrow inner size that is never stored: see narrow_product.hpp.
struct NarrowProduct {
  static constexpr int64_t kColumns = 8;
  MatrixView a, b;  // rows × k, and k × cols with b.col == 1
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of kColumns
  int64_t k = 0;
  int64_t row_step = 0;  // from one row to the next of the step's operands
};

}  // namespace poptorch::emulator
