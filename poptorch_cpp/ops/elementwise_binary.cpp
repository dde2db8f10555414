// Element-wise ops of two and three operands, broadcasting as NumPy does.
#include <cmath>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

Val emit(Val a, const char* op, Val b) { return {a.builder->value(op, {a, b}), a.builder}; }
Val zero_like(Val a) { return {a.builder->scalar(a.type().dtype, 0.0), a.builder}; }

using Rule = std::function<Val(GradBuilder&, Val dy)>;

void add_arithmetic(Registry& r, const char* name, const char* doc, const char* constraint, Rule a,
                    Rule b, bool commutative, std::string popart, bool is_simple = false,
                    bool exact = false) {
  std::string operand = std::string(": ") + constraint;
  r.add({.name = name,
         .doc = doc,
         .inputs = {"a" + operand, "b: a"},
         .outputs = {"y"},
         .infer = broadcast_of_operands(),
         .grad = is_simple ? grad2(std::move(a), std::move(b))
                           : in_f32(grad2(std::move(a), std::move(b))),
         .cost = per_element(1),
         .elementwise = true,
         .exact = exact,
         .commutative = commutative,
         .popart_type = std::move(popart)});
}

// Gives the gradient of maximum and minimum to the greater (lesser) side, half to each on a tie,
// and whole to both if one is nan.
Rule share(const char* loses, size_t mine, size_t other) {
  return [=](GradBuilder& g, Val dy) {
    Val tie = emit(g.x(0), "eq", g.x(1));
    Val lost = emit(g.x(mine), loses, g.x(other));
    return select(tie, dy * 0.5, select(lost, zero_like(dy), dy));
  };
}

// Divides the other leg by the squared distance for atan2; returns zero at the origin, where the
// distance is 0.
Val over_distance(GradBuilder& g, Val leg) {
  Val distance = g.x(0) * g.x(0) + g.x(1) * g.x(1);
  return select(emit(distance, "eq", zero_like(distance)), zero_like(distance), leg / distance);
}

void add_arithmetics(Registry& r) {
  auto pass = [](GradBuilder&, Val dy) { return dy; };
  add_arithmetic(r, "add", "a + b.", "any", pass, pass, true, "Add", true);
  add_arithmetic(
      r, "sub", "a - b.", "number", pass, [](GradBuilder&, Val dy) { return -dy; }, false, "Sub",
      true);
  add_arithmetic(
      r, "mul", "a · b.", "any", [](GradBuilder& g, Val dy) { return dy * g.x(1); },
      [](GradBuilder& g, Val dy) { return dy * g.x(0); }, true, "Mul", true);
  add_arithmetic(
      r, "div", "a / b.", "float", [](GradBuilder& g, Val dy) { return dy / g.x(1); },
      [](GradBuilder& g, Val dy) { return -dy * (g.y(0) / g.x(1)); }, false, "Div");
  add_arithmetic(
      r, "pow", "a to the power of b.", "number",
      [](GradBuilder& g, Val dy) {
        Val slope = g.x(1) * emit(g.x(0), "pow", g.x(1) - 1.0);
        Val none = emit(g.x(1), "eq", zero_like(g.x(1)));
        return select(none, zero_like(dy), dy * slope);
      },
      [](GradBuilder& g, Val dy) {
        // If a is 0 and b is not negative, the limit is 0, not 0 · -inf.
        Val log = g.emit("log", {g.x(0)});
        Val flat = emit(emit(g.x(0), "eq", zero_like(g.x(0))), "logical_and",
                        emit(g.x(1), "ge", zero_like(g.x(1))));
        return select(flat, zero_like(dy), dy * (g.y(0) * log));
      },
      false, "Pow");
  add_arithmetic(r, "maximum", "The greater; nan if either is.", "any", share("lt", 0, 1),
                 share("lt", 1, 0), true, "Max", true, true);
  add_arithmetic(r, "minimum", "The lesser; nan if either is.", "any", share("gt", 0, 1),
                 share("gt", 1, 0), true, "Min", true, true);
  add_arithmetic(
      r, "atan2", "The angle of the point (b, a).", "float",
      [](GradBuilder& g, Val dy) { return dy * over_distance(g, g.x(1)); },
      [](GradBuilder& g, Val dy) { return -dy * over_distance(g, g.x(0)); }, false, "Atan2");
  add_arithmetic(
      r, "fmod", "a - trunc(a / b) · b: the sign of a.", "number", pass,
      [](GradBuilder& g, Val dy) { return -dy * g.emit("trunc", {g.x(0) / g.x(1)}); }, false,
      "Fmod");
  add_arithmetic(
      r, "remainder", "a - floor(a / b) · b: the sign of b.", "number", pass,
      [](GradBuilder& g, Val dy) { return -dy * g.emit("floor_div", {g.x(0), g.x(1)}); }, false,
      "Mod");
  add_arithmetic(r, "floor_div", "floor(a / b).", "number", no_slope, no_slope, false, "");
}

void add_logic(Registry& r) {
  struct Row {
    const char *name, *doc, *popart;
    bool commutative;
    Role role = Role::kPlain;
  };
  constexpr Role kCompares = Role::kComparison;
  for (Row row :
       {Row{"eq", "a = b.", "Equal", true, kCompares}, Row{"ne", "a ≠ b.", "", true, kCompares},
        Row{"lt", "a < b.", "Less", false, kCompares}, Row{"le", "a ≤ b.", "", false, kCompares},
        Row{"gt", "a > b.", "Greater", false, kCompares}, Row{"ge", "a ≥ b.", "", false, kCompares},
        Row{"logical_and", "Both are not zero.", "And", true},
        Row{"logical_or", "Either is not zero.", "Or", true},
        Row{"logical_xor", "Exactly one is not zero.", "", true}}) {
    r.add({.name = row.name,
           .doc = row.doc,
           .role = row.role,
           .inputs = {"a", "b: a"},
           .outputs = {"y"},
           .infer = broadcast_of_operands(DType::kBool),
           .grad = NoGradient{"its result is a truth value"},
           .cost = per_element(1),
           .elementwise = true,
           .exact = true,
           .commutative = row.commutative,
           .popart_type = row.popart});
  }
  for (Row row :
       {Row{"bitwise_and", "a & b.", "BitwiseAnd", true},
        Row{"bitwise_or", "a | b.", "BitwiseOr", true},
        Row{"bitwise_xor", "a ^ b.", "BitwiseXor", true},
        Row{"shift_left", "a · 2ᵇ on the bits.", "", false},
        Row{"shift_right", "a / 2ᵇ on the bits; signed integers keep their sign.", "", false}}) {
    r.add({.name = row.name,
           .doc = row.doc,
           .inputs = {"a", "b: a"},
           .outputs = {"y"},
           .infer =
               [](const InferContext& c) {
                 if (ir::is_float(c.operand(0).dtype))
                   c.fail("works on integers and truth values.");
                 return std::vector{broadcast_pair(c, 0, 1)};
               },
           .grad = NoGradient{"it works on bits"},
           .cost = per_element(1),
           .elementwise = true,
           .commutative = row.commutative,
           .popart_type = row.popart});
  }
}

}  // namespace

void add_elementwise_binary_ops(Registry& r) {
  add_arithmetics(r);
  add_logic(r);
  r.add({.name = "select",
         .doc = "a where the condition is true, else b.",
         .inputs = {"condition: bool", "a", "b: a"},
         .outputs = {"y"},
         .infer =
             [](const InferContext& c) {
               Type type = broadcast_pair(c, 1, 2);
               auto shape = ir::broadcast(type.shape, c.operand(0).shape);
               if (!shape) {
                 c.fail(support::str("the condition's shape does not broadcast with the values': ",
                                     c.operand(0), " and ", type, "."));
               }
               return std::vector{Type{type.dtype, *shape}};
             },
         .grad =
             [](GradBuilder& g) {
               Val dy = g.dy(0);
               Val a = select(g.x(0), dy, zero_like(dy)), b = select(g.x(0), zero_like(dy), dy);
               return std::vector<Value*>{nullptr, g.unbroadcast(a, g.x(1).type()),
                                          g.unbroadcast(b, g.x(2).type())};
             },
         .cost = per_element(1),
         .elementwise = true,
         .exact = true,
         .popart_type = "Where"});
  r.add({.name = "scale_shift",
         .doc = "x · scale + shift, rounded once; scale and shift broadcast to x.",
         .inputs = {"x: float", "scale: float", "shift: float"},
         .outputs = {"y"},
         .infer =
             [](const InferContext& c) {
               const Type& x = c.operand(0);
               for (size_t i : {1, 2}) {
                 if (ir::broadcast(c.operand(i).shape, x.shape) == x.shape) continue;
                 c.fail(support::str("operand ", i, " must broadcast to x: ", c.operand(i), " and ",
                                     x, "."));
               }
               return std::vector{x};
             },
         .grad = NoGradient{"the op that it is a part of has one"},
         .cost = per_element(2),
         .elementwise = true,
         .popart_type = "BatchNormalization"});
  r.add({.name = "clamp",
         .doc = "x limited to [low, high]; nan stays.",
         .inputs = {"x: number"},
         .outputs = {"y"},
         .attrs = {{"low", AttrType::kFloat, -INFINITY}, {"high", AttrType::kFloat, INFINITY}},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder& g, Val dy) {
           Val x = g.x(0);
           Val low{g.builder().scalar(x.type().dtype, g.attr<double>("low")), x.builder};
           Val high{g.builder().scalar(x.type().dtype, g.attr<double>("high")), x.builder};
           Val inside = emit(emit(x, "ge", low), "logical_and", emit(x, "le", high));
           return select(inside, dy, zero_like(dy));
         }),
         .cost = per_element(2),
         .elementwise = true,
         .chooses = true,
         .popart_type = "Clip"});
}

}  // namespace poptorch::ops
