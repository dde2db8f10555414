// Defines how each optimiser updates one parameter: a rule for each kind, and the rules' arguments.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.hpp"
#include "transforms/optimiser_slots.hpp"

namespace poptorch::transforms {

// The view of one parameter that an update rule gets.
class Parameter {
 public:
  Parameter(const ir::Builder& builder, const ir::OptimiserSpec& spec, size_t group,
            const ir::StateSlot& slot, std::map<std::string, ir::Value*>& scalars,
            std::map<std::string, ir::Value*>& counts, ir::Builder& scalar_builder)
      : builder(builder),
        spec(spec),
        slot_(slot),
        group_(group),
        scalars_(scalars),
        counts_(counts),
        scalar_builder_(scalar_builder) {}

  ir::Builder builder;
  const ir::OptimiserSpec& spec;
  ir::Value* weight = nullptr;
  ir::Value* gradient = nullptr;
  ir::Value* accumulator = nullptr;  // to be reset after the update
  bool may_be_skipped = false;
  bool stochastic = false;  // half-precision writes round stochastically

  double number(const std::string& name, double otherwise = 0.0) const {
    return hyper_parameter(spec.groups[group_], name, otherwise);
  }
  bool flag(const std::string& name, bool otherwise = false) const {
    return number(name, otherwise) != 0.0;
  }
  bool is_variable(const std::string& name) const {
    return spec.groups[group_].variable.count(name) != 0;
  }
  // Returns true unless the hyper-parameter is a constant zero.
  bool may_be_nonzero(const std::string& name) const {
    return is_variable(name) || number(name) != 0.0;
  }
  // Converts the gradient to f32. Half types may be unable to represent a scale, or the gradient
  // divided by it, which is the reason for loss scaling.
  void widen() {
    if (ir::size_of(gradient->type().dtype) >= ir::size_of(ir::DType::kF32)) return;
    gradient = builder.value("cast", {gradient}, {{"dtype", ir::DType::kF32}});
  }
  // Returns the attributes that every update op has, added to its `own`.
  ir::Attrs attrs(ir::Attrs own = {}) const {
    own.set("maximize", flag("maximize"));
    own.set("stochastic_rounding", stochastic);
    return own;
  }
  // Returns a hyper-parameter as an f64 scalar; equal scalars are made once.
  ir::Value* scalar(const std::string& name, double otherwise = 0.0) {
    if (is_variable(name)) return read_once(hyper_parameter_slot(spec, group_, name));
    const double value = number(name, otherwise);
    ir::Value*& known = scalars_[ir::attr_text(value)];
    return known ? known : known = scalar_builder_.scalar(ir::DType::kF64, value);
  }
  ir::Value* step() {
    ir::StateSlot slot = flag("separate_steps") ? step_slot(slot_) : step_slot();
    const std::string name = slot.name.text();
    return counts_[name] = read_once(std::move(slot));
  }
  ir::Value* state(const std::string& what, ir::DType dtype, double initial = 0.0) {
    ir::StateSlot slot = parameter_state_slot(slot_, what, dtype, initial);
    return written(builder.variable(std::move(slot)));
  }
  // Records that the update writes the memory of `value`, and keeps a copy if it may be skipped.
  ir::Value* written(ir::Value* value) {
    if (may_be_skipped) before_.emplace_back(value, builder.value("identity", {value}));
    return value;
  }
  // Restores everything that the update wrote, unless `wanted` is true.
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
  std::map<std::string, ir::Value*>& counts_;  // numbers of updates, by slot
  ir::Builder& scalar_builder_;
  std::vector<std::pair<ir::Value*, ir::Value*>> before_;  // memory, and a copy of its old value
};

struct UpdateRow {
  const char* kind;
  void (*emit)(Parameter&);
};

// Returns the rule of a kind. Raises UserError for an unknown kind.
const UpdateRow& update_row(const std::string& kind);

// Returns the optimiser of a module in training. Raises UserError if there is none, if it updates a
// parameter twice, or if it adds gradients in a type that is not float.
const ir::OptimiserSpec& checked_optimiser(const ir::Execution& execution);

// Returns the L2 norm of all elements, in f32.
ir::Val l2_norm(ir::Builder& builder, ir::Value* x);

}  // namespace poptorch::transforms
