// aten rows of matrix products. Operands of mixed float types are cast to the wider one, but the
// weights of a layer to the type of its activations. The generic op multiplies integers.
#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Multiplies operands of any ranks, as torch.matmul does: vectors are rows on the left and columns
// on the right.
Val matmul(Call& c, Val a, Val b, const ir::Attrs& attrs = {}) {
  const int64_t a_rank = a.type().rank(), b_rank = b.type().rank();
  if (a_rank == 0 || b_rank == 0) c.fail("both operands need at least one dimension.");
  if (a_rank == 1) a = c.reshape(a, {1, a.type().shape[0]});
  if (b_rank == 1) b = c.reshape(b, {b.type().shape[0], 1});
  const Val product = c.emit("matmul", {a, b}, attrs);
  Shape shape = product.type().shape;
  if (b_rank == 1) shape.pop_back();
  if (a_rank == 1) shape.erase(shape.end() - (b_rank == 1 ? 1 : 2));
  return c.reshape(product, shape);
}

Values product(Call& c) {
  const DType dtype = product_type(c, {0, 1});
  if (!ir::is_float(dtype)) return {};
  return {{matmul(c, c.operand(0, dtype), c.operand(1, dtype)), dtype}};
}

// Implements poptorch.serializedMatMul.
Values serialized_product(Call& c) {
  const DType dtype = product_type(c, {0, 1});
  if (!ir::is_float(dtype)) return {};
  const ir::Attrs parts = {{"serial", c.text("serial")}, {"parts", c.integer("parts", 1)}};
  return {{matmul(c, c.operand(0, dtype), c.operand(1, dtype), parts), dtype}};
}

Values linear(Call& c) {
  std::vector<size_t> operands{0, 1};
  if (c.given(2)) operands.push_back(2);
  const DType dtype = layer_type(c, operands);
  if (!ir::is_float(dtype)) return {};
  Val x = c.operand(0, dtype);
  const bool is_vector = x.type().rank() == 1;
  if (is_vector) x = c.reshape(x, {1, x.type().shape[0]});
  Value* bias = c.given(2) ? c.operand(2, dtype).value : nullptr;
  Val y = c.emit("linear", {x, c.operand(1, dtype), bias});
  if (is_vector) y = c.reshape(y, {y.type().shape[1]});
  return {{y, dtype}};
}

// Computes Σᵢⱼ aᵢ wₒᵢⱼ bⱼ as two products, where torch materialises all terms.
Values bilinear(Call& c) {
  std::vector<size_t> operands{0, 1, 2};
  if (c.given(3)) operands.push_back(3);
  const DType dtype = layer_type(c, operands);
  if (!ir::is_float(dtype)) return {};
  const Val a = c.operand(0, dtype), b = c.operand(1, dtype), w = c.operand(2, dtype);
  const Shape sizes = w.type().shape;
  if (sizes.size() != 3 || a.type().rank() == 0 || b.type().rank() == 0) {
    c.fail("the weight must have three dimensions, and both inputs a dimension of features.");
  }
  const int64_t out = sizes[0], left = sizes[1], right = sizes[2];
  const int64_t rows = a.type().elements() / a.type().shape.back();
  const Val flat = c.reshape(c.transpose(w, {1, 0, 2}), {left, out * right});
  const Val half =
      c.reshape(matmul(c, c.reshape(a, {rows, a.type().shape.back()}), flat), {rows, out, right});
  const Val product = matmul(c, half, c.reshape(b, {rows, b.type().shape.back(), 1}));
  Shape shape = a.type().shape;
  shape.back() = out;
  const Val y = c.reshape(product, shape);
  return {{c.given(3) ? y + c.operand(3, dtype) : y, dtype}};
}

// Returns beta·input + alpha·y, where the input is operand 0.
Values weighed(Call& c, DType dtype, Val y) {
  const double alpha = c.real("alpha", 1.0), beta = c.real("beta", 1.0);
  // A term with the factor 0 is left out, even if it has NaN or infinity.
  if (alpha == 0.0) {
    y = c.only_where(c.scalar(DType::kBool, 0), y);
  } else if (alpha != 1.0) {
    y = y * alpha;
  }
  const Val input = c.operand(0, dtype);
  if (beta == 0.0) {
    const Val path = y + c.only_where(c.scalar(DType::kBool, 0), input);
    return {{c.with_gradient(y, path), dtype}};
  }
  return {{beta == 1.0 ? y + input : y + input * beta, dtype}};
}

Values scaled_product(Call& c) {
  const DType dtype = product_type(c, {0, 1, 2});
  if (!ir::is_float(dtype)) return {};
  return weighed(c, dtype, matmul(c, c.operand(1, dtype), c.operand(2, dtype)));
}

Val outer(Call& c, Val a, Val b) {
  return c.reshape(a, {a.type().elements(), 1}) * c.reshape(b, {1, b.type().elements()});
}

Values outer_product(Call& c) {
  const DType dtype = c.result_type({0, 1});
  return {{outer(c, c.operand(0, dtype), c.operand(1, dtype)), dtype}};
}

Values scaled_outer_product(Call& c) {
  const DType dtype = c.result_type({0, 1, 2});
  if (!ir::is_float(dtype)) return {};
  return weighed(c, dtype, outer(c, c.operand(1, dtype), c.operand(2, dtype)));
}

}  // namespace

void add_matmul_rules(Rules& r) {
  for (const char* op : {"matmul", "mm", "bmm", "mv", "dot", "vdot"}) r.add(op, product);
  for (const char* op : {"addmm", "baddbmm", "addmv"}) r.add(op, scaled_product);
  r.add("poptorch::serialized_matmul", serialized_product);
  r.add("linear", linear);
  r.add("bilinear", bilinear);
  r.add("addr", scaled_outer_product);
  r.add("outer", outer_product);
  r.add("ger", outer_product);
}

}  // namespace poptorch::frontend
