#include "ops/rules.hpp"

#include <algorithm>

#include "support/strings.hpp"

namespace poptorch::ops {

using support::str;

InferRule same_as(size_t operand) {
  return [operand](const InferContext& c) { return std::vector{c.operand(operand)}; };
}

InferRule nothing() {
  return [](const InferContext&) { return std::vector<Type>{}; };
}

InferRule as_stated() {
  return [](const InferContext& c) {
    if (c.stated.empty() && !c.def().variadic_outputs()) c.fail("needs its result types stated.");
    return c.stated;
  };
}

namespace {

const std::string& name_of(const InferContext& c, size_t operand) {
  return c.def().operand_defs[operand].name;
}

}  // namespace

void require_rank(const InferContext& c, size_t operand, int64_t at_least, int64_t at_most) {
  const int64_t rank = c.operand(operand).rank();
  if (rank >= at_least && rank <= at_most) return;
  const bool few = rank < at_least;
  c.fail(str("operand '", name_of(c, operand), "' needs ", few ? "at least " : "at most ",
             few ? at_least : at_most, " dimensions but is ", c.operand(operand), "."));
}

void require_shape(const InferContext& c, size_t operand, const Shape& shape) {
  if (!c.has(operand) || c.operand(operand).shape == shape) return;
  c.fail(str("operand '", name_of(c, operand), "' must be ", ir::shape_text(shape), " but is ",
             c.operand(operand), "."));
}

void require_type(const InferContext& c, size_t operand, const Type& type) {
  if (!c.has(operand) || c.operand(operand) == type) return;
  c.fail(str("operand '", name_of(c, operand), "' must be ", type, " but is ", c.operand(operand),
             "."));
}

void require_one_element(const InferContext& c, size_t operand) {
  if (c.operand(operand).elements() == 1) return;
  c.fail(str("operand '", name_of(c, operand), "' must be one element but is ", c.operand(operand),
             "."));
}

int64_t checked_size(const InferContext& c, Wide size) {
  if (size >= 0 && size <= ir::kMaxElements) return static_cast<int64_t>(size);
  c.fail(str("an axis of its result would have ", static_cast<double>(size),
             " elements, which is not in [0, ", ir::kMaxElements, "]."));
}

int64_t checked_axis(const InferContext& c, int64_t axis, int64_t rank) {
  if (axis >= 0 && axis < std::max<int64_t>(rank, 1)) return axis;
  c.fail(str("axis ", axis, " is out of range for ", rank, " dimensions."));
}

void checked_axes(const InferContext& c, const Ints& axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    checked_axis(c, axes[i], rank);
    if (i && axes[i] <= axes[i - 1]) c.fail("axes must be ascending and different.");
  }
}

Type broadcast_pair(const InferContext& c, size_t i, size_t j) {
  auto shape = ir::broadcast(c.operand(i).shape, c.operand(j).shape);
  if (!shape) {
    c.fail(str("shapes ", ir::shape_text(c.operand(i).shape), " and ",
               ir::shape_text(c.operand(j).shape), " do not broadcast together."));
  }
  return {c.operand(i).dtype, *shape};
}

InferRule broadcast_of_operands(std::optional<DType> result) {
  return [result](const InferContext& c) {
    Type type = c.operand(0);
    for (size_t i = 1; i < c.operand_count(); ++i) {
      if (!c.has(i)) continue;
      auto shape = ir::broadcast(type.shape, c.operand(i).shape);
      if (!shape) {
        c.fail(str("shapes ", ir::shape_text(type.shape), " and ",
                   ir::shape_text(c.operand(i).shape), " do not broadcast together."));
      }
      type.shape = *shape;
    }
    if (result) type.dtype = *result;
    return std::vector{type};
  };
}

ir::AttrDef within(ir::AttrDef def, double least, double most) {
  def.range = ir::Range{least, most};
  return def;
}

ir::AttrDef at_least(double least, ir::AttrDef def) {
  return within(std::move(def), least, static_cast<double>(ir::kMaxElements));
}

std::vector<ir::AttrDef> planned(std::vector<ir::AttrDef> more) {
  more.push_back(
      {"partials", AttrType::kString, std::string("default"), {"default", "float", "half"}});
  more.push_back(within({"memory_proportion", AttrType::kFloat, -1.0}, -1, 1));
  return more;
}

ir::Attrs given_attrs(const GradBuilder& g, std::initializer_list<const char*> names) {
  ir::Attrs attrs;
  for (const char* name : names) {
    if (const ir::Attr* given = g.op().attrs().find(name)) attrs.set(name, *given);
  }
  return attrs;
}

ir::Attrs plan_of(const GradBuilder& g) {
  return given_attrs(g, {"partials", "memory_proportion"});
}

Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdims) {
  Shape out;
  for (size_t i = 0; i < shape.size(); ++i) {
    bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!reduced) out.push_back(shape[i]);
    if (reduced && keepdims) out.push_back(1);
  }
  return out;
}

double bytes_of(const Op& op) {
  double bytes = 0;
  for (const Value* operand : op.operands()) {
    if (operand) bytes += static_cast<double>(operand->type().bytes());
  }
  for (size_t i = 0; i < op.result_count(); ++i) {
    bytes += static_cast<double>(op.result(i)->type().bytes());
  }
  return bytes;
}

CostRule per_element(double flops) {
  return [flops](const Op& op) {
    return Cost{flops * static_cast<double>(op.result(0)->type().elements()), bytes_of(op)};
  };
}

CostRule per_operand_element(double flops) {
  return [flops](const Op& op) {
    return Cost{flops * static_cast<double>(op.operand(0)->type().elements()), bytes_of(op)};
  };
}

CostRule moves_data() {
  return [](const Op& op) { return Cost{0, bytes_of(op)}; };
}

CostRule no_cost() {
  return [](const Op&) { return Cost{}; };
}

GradRule grad1(std::function<Val(GradBuilder&, Val)> rule) {
  return [rule](GradBuilder& g) { return std::vector<Value*>{rule(g, g.dy(0))}; };
}

GradRule grad2(std::function<Val(GradBuilder&, Val)> a, std::function<Val(GradBuilder&, Val)> b) {
  return [a, b](GradBuilder& g) {
    Val dy = g.dy(0);
    std::vector<Value*> out(2, nullptr);
    if (g.needs(0)) out[0] = g.unbroadcast(a(g, dy), g.x(0).type());
    if (g.needs(1)) out[1] = g.unbroadcast(b(g, dy), g.x(1).type());
    return out;
  };
}

GradRule in_f32(GradRule rule) {
  return [rule = std::move(rule)](GradBuilder& g) {
    g.widen_halves();
    std::vector<Value*> gradients = rule(g);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Value* operand = g.op().operand(i);
      if (!gradients[i] || gradients[i]->type().dtype == operand->type().dtype) continue;
      gradients[i] = g.emit("cast", {gradients[i]}, {{"dtype", operand->type().dtype}});
    }
    return gradients;
  };
}

GradRule grad1_in_f32(std::function<Val(GradBuilder&, Val)> rule) {
  return in_f32(grad1(std::move(rule)));
}

Val no_slope(GradBuilder& g, Val dy) {
  const Val zero{g.builder().scalar(dy.type().dtype, 0.0), dy.builder};
  return broadcast_to(g, zero, dy.type().shape);
}

Val select(Val condition, Val a, Val b) {
  return {a.builder->value("select", {condition, a, b}), a.builder};
}

Val reshape_to(GradBuilder& g, Val x, const Shape& shape) {
  return x.type().shape == shape ? x : g.emit("reshape", {x}, {{"shape", Ints(shape)}});
}

Val broadcast_to(GradBuilder& g, Val x, const Shape& shape) {
  return x.type().shape == shape ? x : g.emit("broadcast_to", {x}, {{"shape", Ints(shape)}});
}

Val restore_axes(GradBuilder& g, Val x, const Shape& full, const Ints& axes) {
  return reshape_to(g, x, reduced_shape(full, axes, true));
}

}  // namespace poptorch::ops
