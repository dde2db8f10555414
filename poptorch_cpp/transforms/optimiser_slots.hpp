// Defines the state slots of an optimiser: their names, types and initial values.
#pragma once

#include <string>

#include "ir/builder.hpp"
#include "ir/module.hpp"
#include "ir/optimiser_spec.hpp"

namespace poptorch::transforms {

// Returns slot `optimiser.<name>.<group>`. It is f64, because update ops take f64 hyper-parameters.
ir::StateSlot hyper_parameter_slot(const ir::OptimiserSpec& spec, size_t group,
                                   const std::string& name);
ir::StateSlot loss_scaling_slot(const ir::OptimiserSpec& spec);
// Returns the slot of the power of two by which automatic loss scaling multiplies the loss scaling.
ir::StateSlot loss_scale_factor_slot();
// Returns the loss scaling as an f64 scalar, or nullptr if it is the constant of the spec.
ir::Value* variable_loss_scale(ir::Builder& builder, const ir::OptimiserSpec& spec);
// Returns the slot of the number of updates done. It is f64, so that bias corrections use it
// exactly. With the flag "separate_steps" of a group, the second function gives each parameter one.
ir::StateSlot step_slot();
ir::StateSlot step_slot(const ir::StateSlot& parameter);
// Returns slot `optimiser.<what>.<parameter>`, with the parameter's shape and replica groups.
ir::StateSlot parameter_state_slot(const ir::StateSlot& parameter, const std::string& what,
                                   ir::DType dtype, double initial = 0.0);
ir::StateSlot accumulator_slot(const ir::StateSlot& parameter, ir::DType dtype);

// Returns a hyper-parameter's value, or `otherwise` if the spec does not give it.
double hyper_parameter(const ir::OptimiserGroup& group, const std::string& name, double otherwise);

}  // namespace poptorch::transforms
