// Constants, ranges and copies.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"

namespace poptorch::ops {

void add_constant_ops(Registry& r) {
  r.add({.name = "constant",
         .doc = "A tensor known at compile time.",
         .role = Role::kConstant,
         .inputs = {},
         .outputs = {"y"},
         .attrs = {{"value", AttrType::kLiteral}},
         .infer =
             [](const InferContext& c) { return std::vector{c.attr<ir::Literal>("value").type()}; },
         .grad = NoGradient{"a constant has no operands"},
         .cost = no_cost()});
  r.add({.name = "iota",
         .doc = "start, start + step, start + 2·step, ...: `size` elements.",
         .inputs = {},
         .outputs = {"y"},
         .attrs = {{"dtype", AttrType::kDType},
                   at_least(0, {"size", AttrType::kInt}),
                   {"start", AttrType::kFloat, 0.0},
                   {"step", AttrType::kFloat, 1.0}},
         .infer =
             [](const InferContext& c) {
               return std::vector{Type{c.attr<DType>("dtype"), {c.attr<int64_t>("size")}}};
             },
         .grad = NoGradient{"a range has no operands"},
         .cost = moves_data()});
}

}  // namespace poptorch::ops
