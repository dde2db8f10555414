// Max and average pools over 1 to 3 spatial dimensions of [n, c, spatial...].
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

// Computes output sizes as torch does; with ceil_mode a window must begin inside the input or its
// left padding.
Shape pooled_shape(const InferContext& c, const Shape& x, const Ints& dilation) {
  if (x.size() < 3 || x.size() > 5) {
    c.fail(str("the input ", ir::shape_text(x), " must have 1 to 3 spatial dimensions."));
  }
  const Ints &kernel = c.attr<Ints>("kernel"), &strides = c.attr<Ints>("strides"),
             &padding = c.attr<Ints>("padding");
  const size_t spatial = x.size() - 2;
  for (const Ints* list : {&kernel, &strides, &padding, &dilation}) {
    if (list->size() == spatial) continue;
    c.fail(str("kernel, strides, padding and dilation need ", spatial, " numbers each."));
  }
  Shape y = {x[0], x[1]};
  for (size_t i = 0; i < spatial; ++i) {
    const Wide step = strides[i];
    const Wide room = x[i + 2] + 2 * Wide{padding[i]} - Wide{dilation[i]} * (kernel[i] - 1) - 1;
    if (room < 0 || padding[i] * 2 > kernel[i]) {
      c.fail(str("kernel ", ir::shape_text(kernel), " with padding ", ir::shape_text(padding),
                 " does not fit the input ", ir::shape_text(x), "."));
    }
    Wide size = (room + (c.attr<bool>("ceil_mode") ? step - 1 : 0)) / step + 1;
    if (c.attr<bool>("ceil_mode") && (size - 1) * step >= x[i + 2] + padding[i]) --size;
    y.push_back(checked_size(c, size));
  }
  return y;
}

std::vector<ir::AttrDef> window(std::vector<ir::AttrDef> more) {
  std::vector<ir::AttrDef> attrs = {at_least(1, {"kernel", AttrType::kInts}),
                                    at_least(1, {"strides", AttrType::kInts}),
                                    at_least(0, {"padding", AttrType::kInts}),
                                    {"ceil_mode", AttrType::kBool, false}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

ir::Attrs window_of(const GradBuilder& g, std::initializer_list<const char*> names) {
  ir::Attrs attrs;
  for (const char* name : names) attrs.set(name, g.op().attr_value(name));
  return attrs;
}

CostRule window_cost() {
  return [](const Op& op) {
    double taps = static_cast<double>(ir::element_count(op.attr<Ints>("kernel")));
    return Cost{taps * static_cast<double>(op.result()->type().elements()), bytes_of(op)};
  };
}

Type max_pooled(const InferContext& c) {
  return {c.operand(0).dtype, pooled_shape(c, c.operand(0).shape, c.attr<Ints>("dilation"))};
}

Shape avg_pooled(const InferContext& c, const Shape& x) {
  return pooled_shape(c, x, Ints(c.attr<Ints>("kernel").size(), 1));
}

}  // namespace

void add_pool_ops(Registry& r) {
  const std::vector<ir::AttrDef> max_attrs = window({at_least(1, {"dilation", AttrType::kInts})});
  const std::vector<ir::AttrDef> average = {{"count_include_pad", AttrType::kBool, true},
                                            {"divisor", AttrType::kInt, int64_t{0}}};
  r.add({.name = "max_pool",
         .doc = "The greatest element of each window; nan wins.",
         .inputs = {"x: number"},
         .outputs = {"y"},
         .attrs = max_attrs,
         .infer = [](const InferContext& c) { return std::vector{max_pooled(c)}; },
         .grad =
             [](GradBuilder& g) {
               return std::vector<Value*>{
                   g.emit("max_pool_grad", {g.x(0), g.y(0), g.dy(0)},
                          window_of(g, {"kernel", "strides", "padding", "ceil_mode", "dilation"}))};
             },
         .cost = window_cost(),
         .exact = true,
         .popart_type = "MaxPool"});
  r.add({.name = "max_pool_grad",
         .doc = "dy sent to the first greatest element of each window.",
         .inputs = {"x: number", "y: x", "dy: =y"},
         .outputs = {"dx"},
         .attrs = max_attrs,
         .infer =
             [](const InferContext& c) {
               require_type(c, 1, max_pooled(c));
               return std::vector{c.operand(0)};
             },
         .grad = NoGradient{"second derivatives of max_pool are not supported"},
         .cost = window_cost(),
         .popart_type = "MaxPoolGrad"});
  r.add({.name = "avg_pool",
         .doc = "The mean of each window; `divisor` replaces the count when not 0.",
         .inputs = {"x: float"},
         .outputs = {"y"},
         .attrs = window(average),
         .infer =
             [](const InferContext& c) {
               return std::vector{Type{c.operand(0).dtype, avg_pooled(c, c.operand(0).shape)}};
             },
         .grad =
             [](GradBuilder& g) {
               ir::Attrs attrs = window_of(g, {"kernel", "strides", "padding", "ceil_mode",
                                               "count_include_pad", "divisor"});
               attrs.set("input_shape", Ints(g.x(0).type().shape));
               return std::vector<Value*>{g.emit("avg_pool_grad", {g.dy(0)}, attrs)};
             },
         .cost = window_cost(),
         .popart_type = "AveragePool"});
  std::vector<ir::AttrDef> grad_attrs = window(average);
  grad_attrs.push_back(at_least(0, {"input_shape", AttrType::kInts}));
  r.add({.name = "avg_pool_grad",
         .doc = "dy spread over the windows of avg_pool.",
         .inputs = {"dy: float"},
         .outputs = {"dx"},
         .attrs = grad_attrs,
         .infer =
             [](const InferContext& c) {
               const Shape& x = c.attr<Ints>("input_shape");
               require_shape(c, 0, avg_pooled(c, x));
               return std::vector{Type{c.operand(0).dtype, x}};
             },
         .grad = grad1([](GradBuilder& g, Val v) {
           return g.emit("avg_pool", {v},
                         window_of(g, {"kernel", "strides", "padding", "ceil_mode",
                                       "count_include_pad", "divisor"}));
         }),
         .cost = window_cost(),
         .popart_type = "AveragePoolGrad"});
}

}  // namespace poptorch::ops
