#include "transforms/optimiser_slots.hpp"

#include <cstring>

#include "ir/execution.hpp"
#include "support/strings.hpp"

namespace poptorch::transforms {
namespace {

using ir::DType;
using ir::Literal;
using ir::StateSlot;
using support::str;

StateSlot scalar_slot(const std::string& name, double initial, const char* kind) {
  return {.name = name,
          .type = {DType::kF64, {}},
          .kind = kind,
          .initial = Literal::scalar(DType::kF64, initial)};
}

StateSlot like(const StateSlot& parameter, const std::string& name, DType dtype, const char* kind) {
  StateSlot slot = parameter;
  slot.name = name;
  slot.type.dtype = dtype;
  slot.kind = kind;
  slot.initial = std::nullopt;
  return slot;
}

Literal filled(const ir::Type& type, double value) {
  const Literal one = Literal::scalar(type.dtype, value);
  const size_t size = static_cast<size_t>(ir::size_of(type.dtype));
  std::vector<std::byte> data(static_cast<size_t>(type.bytes()));
  for (size_t at = 0; at < data.size(); at += size) std::memcpy(&data[at], one.data(), size);
  return {type, std::move(data)};
}

}  // namespace

StateSlot hyper_parameter_slot(const ir::OptimiserSpec& spec, size_t group,
                               const std::string& name) {
  const double value = hyper_parameter(spec.groups[group], name, 0.0);
  return scalar_slot(str("optimiser.", name, ".", group), value, "hyper_parameter");
}

StateSlot loss_scaling_slot(const ir::OptimiserSpec& spec) {
  return scalar_slot("optimiser.loss_scaling", spec.loss_scaling, "hyper_parameter");
}

StateSlot loss_scale_factor_slot() {
  return scalar_slot("optimiser.loss_scale_factor", 1.0, "optimiser_state");
}

ir::Value* variable_loss_scale(ir::Builder& builder, const ir::OptimiserSpec& spec) {
  if (!spec.loss_scaling_variable && !spec.automatic_loss_scaling) return nullptr;
  ir::Value* scale = spec.loss_scaling_variable ? builder.variable(loss_scaling_slot(spec))
                                                : builder.scalar(DType::kF64, spec.loss_scaling);
  if (!spec.automatic_loss_scaling) return scale;
  return builder.value("mul", {scale, builder.variable(loss_scale_factor_slot())});
}

StateSlot step_slot() { return scalar_slot("optimiser.step", 0.0, "optimiser_state"); }

StateSlot step_slot(const StateSlot& parameter) {
  return scalar_slot(str("optimiser.step.", parameter.name), 0.0, "optimiser_state");
}

StateSlot parameter_state_slot(const StateSlot& parameter, const std::string& what, DType dtype,
                               double initial) {
  const std::string name = str("optimiser.", what, ".", parameter.name);
  StateSlot slot = like(parameter, name, dtype, "optimiser_state");
  if (initial != 0.0) slot.initial = filled(slot.type, initial);
  return slot;
}

StateSlot accumulator_slot(const StateSlot& parameter, DType dtype) {
  return like(parameter, str("accumulator.", parameter.name), dtype, "accumulator");
}

double hyper_parameter(const ir::OptimiserGroup& group, const std::string& name, double otherwise) {
  auto it = group.values.find(name);
  return it == group.values.end() ? otherwise : it->second;
}

}  // namespace poptorch::transforms
