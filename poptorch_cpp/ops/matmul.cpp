// Matrix products.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

// A product may be computed in parts, one after the other: of the result's rows, of its columns, or
// of the inner dimension.
std::vector<ir::AttrDef> in_parts(std::vector<ir::AttrDef> more = {}) {
  more.push_back({"serial", AttrType::kString, std::string("rows"), {"rows", "inner", "columns"}});
  more.push_back(at_least(1, {"parts", AttrType::kInt, int64_t{1}}));
  return planned(std::move(more));
}

// The roles of the rows, the inner dimension and the columns in a product of the gradient.
struct Roles {
  const char *rows, *inner, *columns;
};

Val matmul(GradBuilder& g, Val a, Val b, bool transpose_a, bool transpose_b, const Roles& roles) {
  ir::Attrs attrs = plan_of(g);
  attrs.set("transpose_a", transpose_a);
  attrs.set("transpose_b", transpose_b);
  const auto parts = g.attr<int64_t>("parts");
  if (parts == 1) return g.emit("matmul", {a, b}, attrs);
  const auto& serial = g.attr<std::string>("serial");
  attrs.set("parts", parts);
  attrs.set("serial", std::string(serial == "rows"    ? roles.rows
                                  : serial == "inner" ? roles.inner
                                                      : roles.columns));
  return g.emit("matmul", {a, b}, attrs);
}

std::vector<Type> infer_matmul(const InferContext& c) {
  require_rank(c, 0, 2);
  require_rank(c, 1, 2);
  Shape a = c.operand(0).shape, b = c.operand(1).shape;
  if (c.attr<bool>("transpose_a")) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (c.attr<bool>("transpose_b")) std::swap(b[b.size() - 1], b[b.size() - 2]);
  auto batch = ir::broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (a.back() != b[b.size() - 2] || !batch) {
    c.fail(str("cannot multiply ", ir::shape_text(a), " by ", ir::shape_text(b),
               ": the inner dimensions are ", a.back(), " and ", b[b.size() - 2], "."));
  }
  batch->push_back(a[a.size() - 2]);
  batch->push_back(b.back());
  return {Type{c.operand(0).dtype, *batch}};
}

Cost matmul_cost(const Op& op) {
  const Shape& a = op.operand(0)->type().shape;
  int64_t inner = a[a.size() - (op.attr<bool>("transpose_a") ? 2 : 1)];
  return {2.0 * static_cast<double>(inner) * static_cast<double>(op.result()->type().elements()),
          bytes_of(op), true};
}

std::vector<Value*> matmul_gradient(GradBuilder& g) {
  bool ta = g.attr<bool>("transpose_a"), tb = g.attr<bool>("transpose_b");
  Val a = g.x(0), b = g.x(1), dy = g.dy(0);
  std::vector<Value*> out(2, nullptr);
  if (g.needs(0)) {
    Val da = ta ? matmul(g, b, dy, tb, true, {"columns", "rows", "inner"})
                : matmul(g, dy, b, false, !tb, {"rows", "columns", "inner"});
    out[0] = g.unbroadcast(da, a.type());
  }
  if (g.needs(1)) {
    Val db = tb ? matmul(g, dy, a, true, ta, {"inner", "columns", "rows"})
                : matmul(g, a, dy, !ta, false, {"inner", "rows", "columns"});
    out[1] = g.unbroadcast(db, b.type());
  }
  return out;
}

std::vector<Type> infer_linear(const InferContext& c) {
  require_rank(c, 0, 2);
  const Type &x = c.operand(0), &w = c.operand(1);
  if (w.rank() != 2 || x.shape.back() != w.shape[1]) {
    c.fail(str("x ", ir::shape_text(x.shape), " does not fit w ", ir::shape_text(w.shape),
               ": the last dimension of x must be ", w.rank() == 2 ? w.shape[1] : -1, "."));
  }
  require_shape(c, 2, {w.shape[0]});
  Type y = x;
  y.shape.back() = w.shape[0];
  return {y};
}

std::vector<Value*> linear_gradient(GradBuilder& g) {
  Val x = g.x(0), w = g.x(1), dy = g.dy(0);
  const int64_t in = w.type().shape[1], out_size = w.type().shape[0];
  const Shape& leading = x.type().shape;
  const int64_t count = ir::element_count(Shape(leading.begin(), leading.end() - 1));
  std::vector<Value*> out(3, nullptr);
  if (g.needs(0)) out[0] = matmul(g, dy, w, false, false, {"rows", "columns", "inner"});
  Val rows = reshape_to(g, dy, {count, out_size});
  if (g.needs(1)) {
    Val flat = reshape_to(g, x, {count, in});
    out[1] = matmul(g, rows, flat, true, false, {"inner", "columns", "rows"});
  }
  if (g.has(2) && g.needs(2)) out[2] = g.emit("sum", {rows}, {{"axes", Ints{0}}});
  return out;
}

}  // namespace

void add_matmul_ops(Registry& r) {
  r.add({.name = "matmul",
         .doc = "Matrix product of the last two dimensions; leading dimensions broadcast.",
         .role = Role::kProduct,
         .inputs = {"a: float", "b: a"},
         .outputs = {"y"},
         .attrs = in_parts(
             {{"transpose_a", AttrType::kBool, false}, {"transpose_b", AttrType::kBool, false}}),
         .infer = infer_matmul,
         .grad = matmul_gradient,
         .cost = matmul_cost,
         .popart_type = "MatMul"});
  r.add({.name = "linear",
         .doc = "x · wᵀ + bias over the last dimension of x.",
         .role = Role::kProduct,
         .inputs = {"x: float", "w: x", "bias: x?"},
         .outputs = {"y"},
         .attrs = in_parts(),
         .infer = infer_linear,
         .grad = linear_gradient,
         .cost =
             [](const Op& op) {
               return Cost{2.0 * static_cast<double>(op.operand(1)->type().shape[1]) *
                               static_cast<double>(op.result()->type().elements()),
                           bytes_of(op), true};
             },
         .popart_type = "MatMul"});
}

}  // namespace poptorch::ops
