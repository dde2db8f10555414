// Single-threaded f32 matrix products on blocks, the building block of matmul, LSTM and attention.
//
// The order in which an element of C is summed depends only on the inner size k and the chosen
// routine. Any split of rows and columns is therefore bit-identical.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/kernels/base/ending.hpp"
#include "reference/half_sum.hpp"

namespace poptorch::emulator {

// A view of floats: element (i, j) is data[i * row + j * col].
struct MatrixView {
  const float* data = nullptr;
  int64_t row = 0;
  int64_t col = 1;
  MatrixView from(int64_t i, int64_t j) const { return {data + i * row + j * col, row, col}; }
};

// A view of elements of any of these types.
struct OperandView {
  const std::byte* data = nullptr;
  int64_t row = 0;
  int64_t col = 1;
  Element element = Element::kFloat;

  OperandView() = default;
  OperandView(const void* first, int64_t row_stride, int64_t col_stride, Element type)
      : data(static_cast<const std::byte*>(first)),
        row(row_stride),
        col(col_stride),
        element(type) {}
  OperandView(const float* first, int64_t row_stride, int64_t col_stride)
      : OperandView(first, row_stride, col_stride, Element::kFloat) {}
  OperandView(const MatrixView& view) : OperandView(view.data, view.row, view.col) {}

  OperandView at(int64_t offset) const {
    return {data + offset * element_bytes(element), row, col, element};
  }
  OperandView from(int64_t i, int64_t j) const { return at(i * row + j * col); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
  MatrixView floats() const { return {as<float>(), row, col}; }
};

// Number of columns that are contiguous in a packed right-hand side.
constexpr int64_t kPanel = 16;

// Returns the elements of a packed b (k × n): panels of kPanel columns, the last padded with zeros.
inline int64_t packed_floats(int64_t k, int64_t n) {
  return (n + kPanel - 1) / kPanel * kPanel * k;
}
// Packs k rows of the panels [first, last) of b, which keep b's element type. `packed` is the
// address of the first of these rows in panel 0; its panels have `panel_k` rows each.
void pack_panels(const OperandView& b, int64_t k, int64_t n, int64_t first, int64_t last,
                 void* packed, int64_t panel_k);

// Returns the floats of scratch that gemm_packed needs for m rows of an a that is not row-major or
// not of floats.
int64_t gemm_scratch_floats(int64_t m, int64_t k);

// Computes c = a · b + bias, or c += a · b when `accumulate`. c is m × n with rows ldc apart.
// `packed`, from pack_panels, begins at the panel of b's first column and the first of k rows; its
// elements are `packed_as`. `bias` (n) may be nullptr. With an ending, the last sums go there
// instead of to c; with one of halves they go there from c. `by_parts` allows float16, floats, and
// floats by bfloat16, to be multiplied as sums of bfloat16: in another order, with no larger error.
void gemm_packed(int64_t m, int64_t n, int64_t k, const OperandView& a, const void* packed,
                 int64_t panel_k, const float* bias, float* c, int64_t ldc, bool accumulate,
                 float* scratch, Element packed_as = Element::kFloat,
                 const Ending* ending = nullptr, const HalfEnding* half_ending = nullptr,
                 bool by_parts = false);
// Returns whether a product of these sizes as a whole is faster by parts on this host. kPartRows
// rows at a time repay the parts of b.
constexpr int64_t kPartRows = 512;
// Returns whether matrices of these elements are multiplied as such: kMatrixBlock rows at a time.
bool multiplies_matrices(Element a, Element b);
constexpr int64_t kMatrixBlock = 256;
bool repays_parts(int64_t m, int64_t n, int64_t k, Element a, Element b);

// Computes c = a · b, or c += a · b, in float32 with sums that are rounded to float16 after every
// reference::kHalfPartials terms and at the end. If it accumulates, c holds sums of a multiple of
// as many terms. Operands hold values of float16, so that products are exact.
void gemm_half_partials(int64_t m, int64_t n, int64_t k, const OperandView& a, const void* packed,
                        int64_t panel_k, float* c, int64_t ldc, bool accumulate, float* scratch,
                        Element packed_as = Element::kFloat);

// Computes c = a · b + bias for an unpacked, row-major b (b.col == 1) and few rows: at most
// kRowBlock if a is not of floats.
void gemm_rows(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
               const float* bias, float* c, int64_t ldc);

// Does the same for a column-major b (b.row == 1) and a row-major a (a.col == 1): dot products. a
// is of floats, or of halves if gemm_dots_take(a.element, b.element).
void gemm_dots(int64_t m, int64_t n, int64_t k, const OperandView& a, const OperandView& b,
               const float* bias, float* c, int64_t ldc);
bool gemm_dots_take(Element a, Element b);

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
