// How each optimiser updates one parameter: a rule a kind, and what the rules see.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.hpp"
#include "transforms/optimiser_slots.hpp"

namespace poptorch::transforms {

// What an update rule sees of one parameter.
class Parameter {
 public:
  Parameter(const ir::Builder& builder, const ir::OptimiserSpec& spec, size_t group,
            const ir::StateSlot& slot, std::map<std::string, ir::Value*>& scalars,
            ir::Builder& scalar_builder)
      : builder(builder),
        spec(spec),
        slot_(slot),
        group_(group),
        scalars_(scalars),
        scalar_builder_(scalar_builder) {}

  ir::Builder builder;
  const ir::OptimiserSpec& spec;
  ir::Value* weight = nullptr;
  ir::Value* gradient = nullptr;
  ir::Value* accumulator = nullptr;  // to be reset after the update
  bool may_be_skipped = false;
  bool stochastic = false;  // what is written in half precision is rounded at random

  double number(const std::string& name, double otherwise = 0.0) const {
    return hyper_parameter(spec.groups[group_], name, otherwise);
  }
  bool flag(const std::string& name, bool otherwise = false) const {
    return number(name, otherwise) != 0.0;
  }
  bool is_variable(const std::string& name) const {
    return spec.groups[group_].variable.count(name) != 0;
  }
  // True unless the hyper-parameter is a constant zero.
  bool may_be_nonzero(const std::string& name) const {
    return is_variable(name) || number(name) != 0.0;
  }
  // From here on the gradient is in f32: half types may have neither a scale nor what it makes of
  // the gradient, which is what gradients are scaled for.
  void widen() {
    if (ir::size_of(gradient->type().dtype) >= ir::size_of(ir::DType::kF32)) return;
    gradient = builder.value("cast", {gradient}, {{"dtype", ir::DType::kF32}});
  }
  // Of every update op, besides its `own`.
  ir::Attrs attrs(ir::Attrs own = {}) const {
    own.set("maximize", flag("maximize"));
    own.set("stochastic_rounding", stochastic);
    return own;
  }
  // An f64 scalar; equal ones are made once.
  ir::Value* scalar(const std::string& name, double otherwise = 0.0) {
    if (is_variable(name)) return read_once(hyper_parameter_slot(spec, group_, name));
    const double value = number(name, otherwise);
    ir::Value*& known = scalars_[ir::attr_text(value)];
    return known ? known : known = scalar_builder_.scalar(ir::DType::kF64, value);
  }
  ir::Value* step() { return read_once(step_slot()); }
  ir::Value* state(const std::string& what, ir::DType dtype, double initial = 0.0) {
    ir::StateSlot slot = parameter_state_slot(slot_, what, dtype, initial);
    return written(builder.variable(std::move(slot)));
  }
  // The memory of `value` is written by the update.
  ir::Value* written(ir::Value* value) {
    if (may_be_skipped) before_.emplace_back(value, builder.value("identity", {value}));
    return value;
  }
  // Where the update is not `wanted`, everything is as before.
  void keep_unless(ir::Value* wanted) {
    for (const auto& [now, before] : before_) {
      builder.emit("assign", {now, builder.value("select", {wanted, now, before})});
    }
  }

 private:
  ir::Value* read_once(ir::StateSlot slot) {
    ir::Value*& known = scalars_[slot.name.text()];
    return known ? known : known = scalar_builder_.variable(std::move(slot));
  }

  const ir::StateSlot& slot_;
  size_t group_;
  std::map<std::string, ir::Value*>& scalars_;
  ir::Builder& scalar_builder_;
  std::vector<std::pair<ir::Value*, ir::Value*>> before_;  // memory, and a copy of what it held
};

struct UpdateRow {
  const char* kind;
  void (*emit)(Parameter&);
};

// UserError for a kind that is not known.
const UpdateRow& update_row(const std::string& kind);

// What a module in training says of its optimiser. UserError where it says nothing, updates a
// parameter twice, or adds gradients in a type that is not float.
const ir::OptimiserSpec& checked_optimiser(const ir::Execution& execution);

// The L2 norm of all elements, in f32.
ir::Val l2_norm(ir::Builder& builder, ir::Value* x);

}  // namespace poptorch::transforms
