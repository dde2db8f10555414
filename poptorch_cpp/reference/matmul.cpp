// Kernels of matrix products.
#include "reference/half_sum.hpp"
#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

// Computes c [m, n] += a [m, k] · b [k, n], each with row and column strides.
struct Matrix {
  const double* data;
  int64_t row, column;
};
void multiply(Matrix a, Matrix b, double* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      const double left = a.data[i * a.row + p * a.column];
      const double* right = b.data + p * b.row;
      double* row = c + i * n;
      if (b.column == 1) {
        for (int64_t j = 0; j < n; ++j) row[j] += left * right[j];
      } else {
        for (int64_t j = 0; j < n; ++j) row[j] += left * right[j * b.column];
      }
    }
  }
}

// Computes c = a · b with half partials.
void multiply_by_halves(Matrix a, Matrix b, double* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      HalfSum sum;
      for (int64_t p = 0; p < k; ++p) {
        sum.add(a.data[i * a.row + p * a.column], b.data[p * b.row + j * b.column]);
      }
      c[i * n + j] = sum.value();
    }
  }
}

Matrix matrix(const double* data, const Shape& shape, bool transposed) {
  const int64_t columns = shape.back();
  return transposed ? Matrix{data, 1, columns} : Matrix{data, columns, 1};
}

void matmul(const KernelCall& call) {
  const Args args(call);
  const bool ta = args.flag("transpose_a"), tb = args.flag("transpose_b");
  const Shape &sa = args.shape(0), &sb = args.shape(1), &sy = args.result().shape;
  const int64_t m = sy[sy.size() - 2], n = sy.back(), k = sa[sa.size() - (ta ? 2 : 1)];
  const Doubles a = args.in(0), b = args.in(1);
  Doubles y(static_cast<size_t>(args.result().elements()), 0.0);
  const Shape batch(sy.begin(), sy.end() - 2);
  const Shape step_a = broadcast_strides(Shape(sa.begin(), sa.end() - 2), batch);
  const Shape step_b = broadcast_strides(Shape(sb.begin(), sb.end() - 2), batch);
  Integers from_b;
  for_each_offset(batch, step_b, [&](int64_t, int64_t offset) { from_b.push_back(offset); });
  const auto product = args.text("partials") == "half" ? multiply_by_halves : multiply;
  for_each_offset(batch, step_a, [&](int64_t i, int64_t offset) {
    product(matrix(a.data() + offset * m * k, sa, ta), matrix(b.data() + from_b[i] * k * n, sb, tb),
            y.data() + i * m * n, m, n, k);
  });
  args.out(0, y);
}

void add_bias(const Args& args, Doubles& y) {
  const Doubles bias = args.in(2, args.result().shape);
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i];
}

void linear(const KernelCall& call) {
  const Args args(call);
  const int64_t n = args.shape(1)[0], k = args.shape(1)[1];
  const int64_t m = args.result().elements() / n;
  const Doubles x = args.in(0), w = args.in(1);
  const Matrix rows = matrix(x.data(), {m, k}, false), weights = matrix(w.data(), {n, k}, true);
  Doubles y(static_cast<size_t>(m * n), 0.0);
  if (args.text("partials") == "half") {
    multiply_by_halves(rows, weights, y.data(), m, n, k);
    if (args.has(2)) add_bias(args, y);
    return args.out(0, y);
  }
  if (args.has(2)) y = args.in(2, args.result().shape);
  multiply(rows, weights, y.data(), m, n, k);
  args.out(0, y);
}

}  // namespace

void add_matmul_kernels(Table& table) {
  table["matmul"] = {matmul};
  table["linear"] = {linear};
}

}  // namespace poptorch::reference
