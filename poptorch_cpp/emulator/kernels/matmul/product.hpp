// Products of matrices as linear and matmul describe them, and how they read their right-hand side.
#pragma once

#include <vector>

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

enum class Route {
  kRows,    // b as it stands, row-major
  kDots,    // b as it stands, column-major
  kPacked,  // b in panels
};

struct Product {
  int64_t m, n, k;
  OperandView a, b;                       // strides and elements; data is set at run
  std::vector<int64_t> a_batch, b_batch;  // offset of every matrix of the batch
  std::vector<int64_t> b_distinct = {};   // offsets of the different b's
  ir::DType bias = ir::DType::kF32, result = ir::DType::kF32;
  bool has_bias = false;
  bool half_partials = false;
  bool b_in_panels = false;  // in memory already
  // A product with one column is computed as the row of products that its transpose is: a is the
  // op's operand 1, and b is operand 0.
  bool transposed = false;

  int input_of_a() const { return transposed ? 1 : 0; }
  int input_of_b() const { return transposed ? 0 : 1; }
};

using ProductOf = Product (*)(const KernelRequest&);

// Describe an op with a result. The weights of linear have elements.
Product product_of_linear(const KernelRequest& request);
Product product_of_matmul(const KernelRequest& request);

Route route_of(const Product& product);

// Asks for a right-hand side in panels, if it is a matrix of floats that no step writes and that
// the kernel would pack.
void choose_panels(KernelRequest& request, ProductOf product_of);

template <ProductOf product_of>
void choose_layouts_of_product(KernelRequest& request) {
  choose_panels(request, product_of);
}

}  // namespace poptorch::emulator
