// The state slots of an optimiser: what they are called, hold and begin with.
#pragma once

#include <string>

#include "ir/builder.hpp"
#include "ir/module.hpp"
#include "ir/optimiser_spec.hpp"

namespace poptorch::transforms {

// `optimiser.<name>.<group>`: f64, as the update ops take their hyper-parameters.
ir::StateSlot hyper_parameter_slot(const ir::OptimiserSpec& spec, size_t group,
                                   const std::string& name);
ir::StateSlot loss_scaling_slot(const ir::OptimiserSpec& spec);
// Of automatic loss scaling: what the loss scaling is multiplied with, a power of two.
ir::StateSlot loss_scale_factor_slot();
// The loss scaling, or nullptr when it is the constant of the spec: an f64 scalar.
ir::Value* variable_loss_scale(ir::Builder& builder, const ir::OptimiserSpec& spec);
// Updates done: f64, so that it enters bias corrections exactly.
ir::StateSlot step_slot();
// `optimiser.<what>.<parameter>`, shaped and shared between replicas like the parameter.
ir::StateSlot parameter_state_slot(const ir::StateSlot& parameter, const std::string& what,
                                   ir::DType dtype, double initial = 0.0);
ir::StateSlot accumulator_slot(const ir::StateSlot& parameter, ir::DType dtype);

// A hyper-parameter's value; `otherwise` when the spec does not give it.
double hyper_parameter(const ir::OptimiserGroup& group, const std::string& name, double otherwise);

}  // namespace poptorch::transforms
