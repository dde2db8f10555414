#include "emulator/kernels/matmul/product.hpp"

#include <algorithm>
#include <utility>

#include "emulator/kernels/base/panels.hpp"
#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {
namespace {

using ir::Shape;

OperandView strides(int64_t row, int64_t col) {
  return {static_cast<const float*>(nullptr), row, col};
}

// Transposes a product of several rows and one column: the vectors of registers hold columns.
// Endings on halves may have numbers by column.
void transpose_column(const KernelRequest& request, Product& p) {
  const bool ends_in_halves = request.epilogue && ir::is_half(request.outputs[0].dtype);
  if (p.n != 1 || p.m == 1 || p.half_partials || ends_in_halves) return;
  auto transposed = [](const OperandView& x) {
    return OperandView(x.data, x.col, x.row, x.element);
  };
  p.a = std::exchange(p.b, transposed(p.a));
  p.a = transposed(p.a);
  std::swap(p.a_batch, p.b_batch);
  p.n = std::exchange(p.m, 1);
  p.transposed = true;
}

// Notes the types of the operands and of the result.
Product finished(const KernelRequest& request, Product product) {
  product.a.element = element_of(request.inputs[0]->dtype);
  product.b.element = element_of(request.inputs[1]->dtype);
  product.result = request.outputs[0].dtype;
  if (product.has_bias) product.bias = request.inputs[2]->dtype;
  product.half_partials = has_half_partials(request);
  product.b_in_panels = request.input_layouts[1].is_panels();
  if (!product.b_in_panels) transpose_column(request, product);
  product.b_distinct = product.b_batch;
  std::sort(product.b_distinct.begin(), product.b_distinct.end());
  product.b_distinct.erase(std::unique(product.b_distinct.begin(), product.b_distinct.end()),
                           product.b_distinct.end());
  return product;
}

// Returns an operand's matrix offset for every index of the broadcast batch.
std::vector<int64_t> batch_offsets(const Shape& operand, const Shape& batch) {
  const int64_t matrix = operand[operand.size() - 1] * operand[operand.size() - 2];
  const Shape strides = broadcast_strides(Shape(operand.begin(), operand.end() - 2), batch);
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < ir::element_count(batch); ++i) {
    int64_t rest = i, offset = 0;
    for (size_t d = batch.size(); d-- > 0;) {
      offset += rest % batch[d] * strides[d];
      rest /= batch[d];
    }
    offsets.push_back(offset * matrix);
  }
  return offsets;
}

}  // namespace

Product product_of_linear(const KernelRequest& request) {
  const ir::Type &x = *request.inputs[0], &w = *request.inputs[1];
  const int64_t in = w.shape[1], out = w.shape[0];
  return finished(request, {.m = x.elements() / in,
                            .n = out,
                            .k = in,
                            .a = strides(in, 1),
                            .b = strides(1, in),
                            .a_batch = {0},
                            .b_batch = {0},
                            .has_bias = request.inputs.size() > 2 && request.inputs[2]});
}

Product product_of_matmul(const KernelRequest& request) {
  const Shape &a = request.inputs[0]->shape, &b = request.inputs[1]->shape;
  const Shape& y = request.outputs[0].shape;
  const bool ta = request.attr<bool>("transpose_a"), tb = request.attr<bool>("transpose_b");
  const int64_t a_cols = a.back(), b_cols = b.back();
  Product p{.m = y[y.size() - 2],
            .n = y.back(),
            .k = ta ? a[a.size() - 2] : a_cols,
            .a = ta ? strides(1, a_cols) : strides(a_cols, 1),
            .b = tb ? strides(1, b_cols) : strides(b_cols, 1),
            .a_batch = {},
            .b_batch = {}};
  const Shape batch(y.begin(), y.end() - 2);
  const bool one_b = ir::element_count(Shape(b.begin(), b.end() - 2)) == 1;
  if (one_b && !ta && ir::element_count(a) == ir::element_count(batch) * p.m * p.k) {
    // Every matrix of the batch has the same b: the batch is one tall matrix.
    p.m *= ir::element_count(batch);
    p.a_batch = p.b_batch = {0};
  } else {
    p.a_batch = batch_offsets(a, batch);
    p.b_batch = batch_offsets(b, batch);
  }
  return finished(request, std::move(p));
}

Route route_of(const Product& p) {
  if (p.half_partials || p.b_in_panels) return Route::kPacked;
  const bool b_rows = p.b.col == 1, b_columns = p.b.row == 1 && p.a.col == 1;
  if (b_columns && p.m == 1 && p.n == 1) return Route::kDots;
  if (b_rows && (p.m <= 24 || p.k <= 32)) return Route::kRows;
  return b_columns && p.m <= 24 ? Route::kDots : Route::kPacked;
}

void choose_panels(KernelRequest& request, ProductOf product_of) {
  std::ranges::fill(request.input_layouts, Layout{});
  std::ranges::fill(request.output_layouts, Layout{});
  const ir::Type &b = *request.inputs[1], &y = request.outputs[0];
  if (b.rank() != 2 || b.elements() == 0 || y.elements() == 0) return;
  if (!may_hold_panels(request, y.shape.back())) return;
  const Product product = product_of(request);
  if (route_of(product) != Route::kPacked) return;
  request.input_layouts[1].kind = product.b.row == 1 && b.shape[0] == product.n
                                      ? Layout::Kind::kPanelsOfRows
                                      : Layout::Kind::kPanelsOfColumns;
}

}  // namespace poptorch::emulator
