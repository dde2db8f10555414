// The aten row of scaled dot-product attention.
#include <cmath>
#include <limits>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Reshapes x, with any leading dimensions, to [batch, heads, length, width].
Val four_dimensional(Call& c, Val x) {
  const Shape& shape = x.type().shape;
  if (shape.size() == 4) return x;
  int64_t leading = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) leading *= shape[i];
  return c.reshape(x, {leading, 1, shape[shape.size() - 2], shape.back()});
}

// Repeats keys or values that have fewer heads: groups of query heads share them.
Val repeat_heads(Call& c, Val x, int64_t heads) {
  const Shape shape = x.type().shape;
  const int64_t groups = heads / shape[1];
  if (groups == 1) return x;
  const Val split = c.reshape(x, {shape[0], shape[1], 1, shape[2], shape[3]});
  return c.reshape(c.broadcast(split, {shape[0], shape[1], groups, shape[2], shape[3]}),
                   {shape[0], heads, shape[2], shape[3]});
}

// Returns the mask as numbers to add to the scores: true becomes 0, false becomes -infinity.
Value* additive_mask(Call& c, DType dtype) {
  const TensorValue mask = c.tensor("attn_mask");
  if (!mask) return nullptr;
  if (mask.dtype != DType::kBool) return c.cast(mask.value, dtype);
  const Val off = c.scalar(dtype, -std::numeric_limits<double>::infinity());
  return c.emit("select", {mask.value, c.scalar(dtype, 0), off});
}

Val causal_mask(Call& c, int64_t rows, int64_t columns, DType dtype) {
  const auto iota = [&](int64_t size) {
    return c.emit("iota", {}, {{"dtype", DType::kI32}, {"size", size}});
  };
  const Val seen = c.emit("le", {iota(columns), c.reshape(iota(rows), {rows, 1})});
  const Val off = c.scalar(dtype, -std::numeric_limits<double>::infinity());
  return c.emit("select", {seen, c.scalar(dtype, 0), off});
}

// Composes attention from simpler ops, since dropout needs the probabilities.
Val composed(Call& c, Val q, Val k, Val v, Value* mask, bool causal, double scale, double drop) {
  Val scores = c.emit("matmul", {q, k}, {{"transpose_b", true}}) * scale;
  const int64_t rows = q.type().shape[2], columns = k.type().shape[2];
  if (causal) scores = scores + causal_mask(c, rows, columns, q.type().dtype);
  if (mask) scores = scores + c.val(mask);
  const Val weights = c.emit("softmax", {scores}, {{"axis", int64_t{3}}});
  ir::Op* dropped = c.builder().emit("dropout", {weights}, {{"p", drop}});
  return c.emit("matmul", {dropped->result(0), v});
}

// Reshapes the mask to four dimensions, which the op requires.
Value* four_dimensional_mask(Call& c, Value* mask, int64_t q_rank) {
  if (!mask) return nullptr;
  Shape shape = mask->type().shape;
  if (q_rank != 4) {
    while (shape.size() < static_cast<size_t>(q_rank)) shape.insert(shape.begin(), 1);
    return four_dimensional(c, c.reshape(mask, shape));
  }
  while (shape.size() < 4) shape.insert(shape.begin(), 1);
  return c.reshape(mask, shape);
}

// Broadcasts the dimensions before length and width together, as in matmul.
void broadcast_leading(Call& c, std::vector<Val>& all) {
  Shape leading;
  for (const Val& x : all) {
    const Shape& shape = x.type().shape;
    const auto together = ir::broadcast(leading, Shape(shape.begin(), shape.end() - 2));
    if (!together) c.fail("query, key and value do not broadcast together.");
    leading = *together;
  }
  for (Val& x : all) {
    Shape shape = leading;
    shape.insert(shape.end(), x.type().shape.end() - 2, x.type().shape.end());
    x = c.broadcast(x, shape);
  }
}

Values attention(Call& c) {
  const DType dtype = c.result_type({0, 1, 2});
  std::vector<Val> operands;
  for (size_t i = 0; i < 3; ++i) operands.push_back(c.operand(i, dtype));
  const bool grouped = c.flag("enable_gqa", false);
  if (!grouped) broadcast_leading(c, operands);
  Shape shape = operands[0].type().shape;
  const Val q = four_dimensional(c, operands[0]);
  Val k = four_dimensional(c, operands[1]), v = four_dimensional(c, operands[2]);
  if (grouped) {
    k = repeat_heads(c, k, q.type().shape[1]);
    v = repeat_heads(c, v, q.type().shape[1]);
  }
  const double width = static_cast<double>(q.type().shape[3]);
  const double scale = c.real("scale", 1.0 / std::sqrt(width));
  const double drop = c.real("dropout_p", 0.0);
  const bool causal = c.flag("is_causal", false);
  Value* mask = four_dimensional_mask(c, additive_mask(c, dtype), operands[0].type().rank());
  Val o =
      drop > 0
          ? composed(c, q, k, v, mask, causal, scale, drop)
          : c.val(c.builder()
                      .emit("attention", {q, k, v, mask}, {{"causal", causal}, {"scale", scale}})
                      ->result(0));
  shape.back() = v.type().shape[3];
  return {{c.reshape(o, shape), dtype}};
}

}  // namespace

void add_attention_rules(Rules& r) { r.add("scaled_dot_product_attention", attention); }

}  // namespace poptorch::frontend
