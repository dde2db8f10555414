#include "transforms/update_rules.hpp"

#include <set>

#include "ir/execution.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::transforms {
namespace {

using ir::DType;
using ir::Op;
using ir::Val;
using ir::Value;
using support::str;

void update_sgd(Parameter& p) {
  if (!p.may_be_nonzero("momentum")) {
    p.builder.emit("sgd_update", {p.weight, p.gradient, p.scalar("lr"), p.scalar("weight_decay")},
                   p.attrs());
    return;
  }
  Value* buffer = p.state("momentum_buffer", p.spec.first_moment_type);
  Value* lr = p.scalar("lr");
  Value* decay = p.scalar("weight_decay");
  // The update is linear in the velocity: a buffer with `scale` times the velocity adds scaled
  // gradients.
  if (p.is_variable("velocity_scaling") || p.number("velocity_scaling", 1.0) != 1.0) {
    const Val scale{p.scalar("velocity_scaling"), &p.builder};
    lr = Val{lr, &p.builder} / scale;
    decay = Val{decay, &p.builder} * scale;
    p.widen();
    Value* factor = p.builder.value("cast", {scale}, {{"dtype", p.gradient->type().dtype}});
    p.gradient = p.builder.value("mul", {p.gradient, factor});
  }
  p.builder.emit("sgd_momentum_update",
                 {p.weight, buffer, p.gradient, p.step(), lr, decay, p.scalar("momentum"),
                  p.scalar("dampening")},
                 p.attrs({{"nesterov", p.flag("nesterov")}}));
}

void update_adam(Parameter& p, bool decoupled) {
  Value* m = p.state("exp_avg", p.spec.first_moment_type);
  Value* v = p.state("exp_avg_sq", p.spec.second_moment_type);
  p.builder.emit(
      "adam_update",
      {p.weight, m, v, p.gradient, p.step(), p.scalar("lr"), p.scalar("beta1", 0.9),
       p.scalar("beta2", 0.999), p.scalar("eps", 1e-8), p.scalar("weight_decay")},
      p.attrs({{"decoupled", decoupled}, {"bias_correction", p.flag("bias_correction", true)}}));
}

void update_rmsprop(Parameter& p) {
  const bool tf_variant = p.flag("use_tf_variant");
  Value* s = p.state("square_avg", p.spec.second_moment_type, tf_variant ? 1.0 : 0.0);
  Value* buffer = nullptr;
  Value* mean = nullptr;
  if (p.may_be_nonzero("momentum")) buffer = p.state("momentum_buffer", p.spec.first_moment_type);
  if (p.flag("centered")) mean = p.state("grad_avg", p.spec.first_moment_type);
  p.builder.emit(
      "rmsprop_update",
      {p.weight, s, p.gradient, p.scalar("lr"), p.scalar("alpha", 0.99), p.scalar("eps", 1e-8),
       p.scalar("weight_decay"), p.scalar("momentum"), buffer, mean},
      p.attrs({{"tf_variant", tf_variant}}));
}

// Computes w -= lr · trust · direction, with trust = min(|w|, max_weight_norm) / |direction|, or 1
// if either is 0.
void update_lamb(Parameter& p) {
  ir::Builder& b = p.builder;
  Value* m = p.state("exp_avg", p.spec.first_moment_type);
  Value* v = p.state("exp_avg_sq", p.spec.second_moment_type);
  // Stochastic rounding needs the sum in f32; weights are rounded once, at the end.
  const DType dtype = p.stochastic ? DType::kF32 : p.weight->type().dtype;
  Value* weight = p.weight;
  if (weight->type().dtype != dtype) weight = b.value("cast", {weight}, {{"dtype", dtype}});
  Op* moments = b.emit("lamb_direction",
                       {m, v, weight, p.gradient, p.step(), p.scalar("beta1", 0.9),
                        p.scalar("beta2", 0.999), p.scalar("eps", 1e-8), p.scalar("weight_decay")},
                       p.attrs({{"bias_correction", p.flag("bias_correction", true)}}));
  Val direction{moments->result(2), &b};
  Val of_weight = l2_norm(b, p.weight), of_direction = l2_norm(b, direction);
  Value* limit = b.value("cast", {p.scalar("max_weight_norm", 65500.0)}, {{"dtype", DType::kF32}});
  Val trust = Val{b.value("minimum", {of_weight, limit}), &b} / of_direction;
  Value* zero = b.scalar(DType::kF32, 0.0);
  Value* both = b.value("mul", {of_weight, of_direction});
  Value* usable = b.value("gt", {both, zero});
  Val factor{b.value("select", {usable, trust, b.scalar(DType::kF32, 1.0)}), &b};
  factor = factor * Val{b.value("cast", {p.scalar("lr")}, {{"dtype", DType::kF32}}), &b};
  Val scale{b.value("cast", {factor}, {{"dtype", dtype}}), &b};
  Value* after = Val{weight, &b} - direction * scale;
  if (after->type() != p.weight->type()) {
    after = b.value("stochastic_cast", {after},
                    {{"dtype", p.weight->type().dtype}, {"same_in_replicas", true}});
  }
  b.emit("assign", {p.weight, after});
}

constexpr UpdateRow kUpdates[] = {
    {"sgd", update_sgd},
    {"adam", [](Parameter& p) { update_adam(p, false); }},
    {"adamw", [](Parameter& p) { update_adam(p, true); }},
    {"rmsprop", update_rmsprop},
    {"lamb", update_lamb},
};

}  // namespace

Val l2_norm(ir::Builder& b, Value* x) {
  if (x->type().dtype != DType::kF32) x = b.value("cast", {x}, {{"dtype", DType::kF32}});
  ir::Ints axes;
  for (int64_t i = 0; i < x->type().rank(); ++i) axes.push_back(i);
  Value* squares = b.value("square", {x});
  if (!axes.empty()) squares = b.value("sum", {squares}, {{"axes", axes}});
  return {b.value("sqrt", {squares}), &b};
}

const UpdateRow& update_row(const std::string& kind) {
  for (const UpdateRow& row : kUpdates) {
    if (row.kind == kind) return row;
  }
  throw support::UserError(
      str("[optimiser] kind '", kind, "' is not known. Use sgd, adam, adamw, rmsprop or lamb."));
}

const ir::OptimiserSpec& checked_optimiser(const ir::Execution& execution) {
  auto refuse = [](const std::string& text) { throw support::UserError("[optimiser] " + text); };
  if (!execution.optimiser) {
    refuse("the module is trained, but has no optimiser. Say which, or set training to false.");
  }
  const ir::OptimiserSpec& spec = *execution.optimiser;
  update_row(spec.kind);
  const std::pair<const char*, DType> types[] = {{"accumulator", spec.accumulator_type},
                                                 {"first_moment", spec.first_moment_type},
                                                 {"second_moment", spec.second_moment_type}};
  for (const auto& [what, dtype] : types) {
    if (ir::is_float(dtype)) continue;
    refuse(str(what, "_type is ", dtype, ". Choose a float type."));
  }
  std::set<std::string> seen;
  for (const ir::OptimiserGroup& group : spec.groups) {
    for (const std::string& name : group.parameters) {
      if (seen.insert(name).second) continue;
      refuse(str(support::quoted(name), " is updated twice. Name each parameter once."));
    }
  }
  return spec;
}

}  // namespace poptorch::transforms
