// Optimiser updates: one element-wise op a parameter, writing weight and optimiser state in place.
//
// Hyper-parameters are f64 scalars, either constants or state slots: torch computes with them in
// Python's doubles, and 1 - beta loses its digits in f32. `step` is the number of updates including
// this one, so it is 1 at the first. With `maximize` the gradient changes sign first. The
// element-wise arithmetic uses the weight's element type, in the order of torch's single-tensor
// code.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

const ir::AttrDef kMaximize{"maximize", AttrType::kBool, false};

// Checks that tensors (all but f64 scalars) have the shape of operand 0.
std::vector<Type> checked_shapes(const InferContext& c) {
  for (size_t i = 1; i < c.operand_count(); ++i) {
    if (!c.has(i)) continue;
    const ir::OperandDef& def = c.def().operand_defs[i];
    require_shape(c, i, def.constraint == "f64" ? Shape{} : c.operand(0).shape);
  }
  return {};
}

void add_update(Registry& r, const char* name, const char* doc, std::vector<std::string> inputs,
                std::vector<ir::AttrDef> attrs, std::vector<int> writes, double flops,
                const char* popart) {
  r.add({.name = name,
         .doc = doc,
         .inputs = std::move(inputs),
         .outputs = {},
         .attrs = std::move(attrs),
         .infer = checked_shapes,
         .grad = NoGradient{"it writes state"},
         .cost = per_operand_element(flops),
         .writes = std::move(writes),
         .elementwise = true,
         .popart_type = popart});
}

}  // namespace

void add_update_ops(Registry& r) {
  add_update(r, "sgd_update", "g += weight_decay · w; w -= lr · g.",
             {"w: float", "g: float", "lr: f64", "weight_decay: f64"},
             {kMaximize, kStochasticRounding}, {0}, 4, "SGD0VarUpdate");
  add_update(
      r, "sgd_momentum_update",
      "g += weight_decay · w; buffer = momentum · buffer + (1 - dampening) · g, at the first "
      "step just g; then w -= lr · buffer, or with nesterov w -= lr · (g + momentum · buffer).",
      {"w: float", "buffer: float", "g: float", "step: f64", "lr: f64", "weight_decay: f64",
       "momentum: f64", "dampening: f64"},
      {kMaximize, {"nesterov", AttrType::kBool, false}, kStochasticRounding}, {0, 1}, 8,
      "SGD1VarUpdate");
  add_update(r, "adam_update",
             "Adam (Kingma and Ba 2015), with decoupled decay AdamW (Loshchilov and Hutter 2019): "
             "w *= 1 - lr · weight_decay if decoupled, else g += weight_decay · w; "
             "m += (1 - beta1) · (g - m); v = beta2 · v + (1 - beta2) · g²; "
             "w -= lr / c1 · m / (sqrt(v) / sqrt(c2) + eps), with c = 1 - betaˢᵗᵉᵖ, or 1 without "
             "bias correction.",
             {"w: float", "m: float", "v: float", "g: float", "step: f64", "lr: f64", "beta1: f64",
              "beta2: f64", "eps: f64", "weight_decay: f64"},
             {kMaximize,
              {"decoupled", AttrType::kBool, false},
              {"bias_correction", AttrType::kBool, true},
              kStochasticRounding},
             {0, 1, 2}, 16, "AdamVarUpdate");
  add_update(
      r, "rmsprop_update",
      "g += weight_decay · w; s = alpha · s + (1 - alpha) · g²; the root of s (centered: of "
      "s - mean²) plus eps divides g; with a momentum buffer, buffer = momentum · buffer + "
      "that, w -= lr · buffer. The TF variant puts eps inside the root and lr into the buffer.",
      {"w: float", "s: float", "g: float", "lr: f64", "alpha: f64", "eps: f64", "weight_decay: f64",
       "momentum: f64", "buffer: float?", "mean: float?"},
      {kMaximize, {"tf_variant", AttrType::kBool, false}, kStochasticRounding}, {0, 1, 8, 9}, 16,
      "RMSPropUpdater");
  r.add({.name = "lamb_direction",
         .doc = "LAMB's direction (You et al. 2020): m and v as in adam_update; the result is "
                "m / c1 / (sqrt(v / c2) + eps) + weight_decay · w.",
         .inputs = {"m: float", "v: float", "w: float", "g: float", "step: f64", "beta1: f64",
                    "beta2: f64", "eps: f64", "weight_decay: f64"},
         .outputs = {"m_after", "v_after", "direction"},
         .attrs = {kMaximize, {"bias_correction", AttrType::kBool, true}, kStochasticRounding},
         .infer =
             [](const InferContext& c) {
               checked_shapes(c);
               return std::vector{c.operand(0), c.operand(1), c.operand(2)};
             },
         .grad = NoGradient{"it writes state"},
         .cost = per_operand_element(16),
         .writes = {0, 1},
         .elementwise = true,
         .popart_type = "AdamUpdater"});
}

}  // namespace poptorch::ops
