#include "frontends/torch/libtorch/optimiser.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>

#include "ir/execution.hpp"
#include "poptorch/optim.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;
using support::UserError;
using Values = std::map<std::string, double>;

// The structure of the update, which is always compiled in.
const std::set<std::string> kStructure = {"nesterov", "maximize", "amsgrad", "centered"};

Values values_of(const torch::optim::SGDOptions& o) {
  return {{"lr", o.lr()},
          {"momentum", o.momentum()},
          {"dampening", o.dampening()},
          {"weight_decay", o.weight_decay()},
          {"nesterov", o.nesterov() ? 1.0 : 0.0},
          {"maximize", 0.0}};
}

template <typename AdamLike>
Values adam_values(const AdamLike& o) {
  const auto [beta1, beta2] = o.betas();
  if (o.amsgrad()) {
    throw support::UnsupportedError(
        "[optimiser] AMSGrad is not supported. Leave amsgrad at false.");
  }
  return {{"lr", o.lr()},
          {"beta1", beta1},
          {"beta2", beta2},
          {"eps", o.eps()},
          {"weight_decay", o.weight_decay()},
          {"amsgrad", 0.0},
          {"maximize", 0.0}};
}

Values values_of(const torch::optim::RMSpropOptions& o) {
  return {{"lr", o.lr()},
          {"alpha", o.alpha()},
          {"eps", o.eps()},
          {"weight_decay", o.weight_decay()},
          {"momentum", o.momentum()},
          {"centered", o.centered() ? 1.0 : 0.0},
          {"maximize", 0.0}};
}

struct Described {
  std::string kind;
  Values values, defaults;
};

Described describe(const torch::optim::OptimizerOptions& options) {
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&options)) {
    return {"sgd", values_of(*sgd), values_of(torch::optim::SGDOptions(0.0))};
  }
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&options)) {
    return {"adamw", adam_values(*adamw), adam_values(torch::optim::AdamWOptions())};
  }
  if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options)) {
    return {"adam", adam_values(*adam), adam_values(torch::optim::AdamOptions())};
  }
  if (const auto* rmsprop = dynamic_cast<const torch::optim::RMSpropOptions*>(&options)) {
    return {"rmsprop", values_of(*rmsprop), values_of(torch::optim::RMSpropOptions())};
  }
  throw support::UnsupportedError(
      "[optimiser] this optimiser is not supported. Use SGD, Adam, AdamW, RMSprop or LAMB of "
      "poptorch::optim, or one of the first four of torch::optim.");
}

// Returns what may change later in torch's own optimisers, as in Python: the learning rate and
// arguments with other values than their defaults.
std::set<std::string> variable_of(const Described& described) {
  std::set<std::string> variable = {"lr"};
  for (const auto& [name, value] : described.values) {
    if (value != described.defaults.at(name)) variable.insert(name);
  }
  if (variable.contains("beta1") || variable.contains("beta2")) variable.insert({"beta1", "beta2"});
  return variable;
}

ir::DType dtype_of(const optim::Arguments& arguments, const std::string& name) {
  return arguments.dtype(name) == torch::kHalf ? ir::DType::kF16 : ir::DType::kF32;
}

// Takes the extras' settings of the whole optimiser.
void take_extras(const optim::Extras& extras, ir::OptimiserSpec& spec) {
  const optim::Arguments& given = extras.arguments();
  const bool has_velocity = given.has("velocity_accum_type");
  const bool combined = given.has("use_combined_accum") && given.flag("use_combined_accum");
  spec.loss_scaling = given.number("loss_scaling");
  spec.loss_scaling_variable = !extras.isConstant("loss_scaling");
  if (given.has("max_grad_norm")) spec.max_grad_norm = given.number("max_grad_norm");
  spec.accumulator_type = dtype_of(given, "accum_type");
  spec.first_moment_type =
      dtype_of(given, has_velocity ? "velocity_accum_type" : "first_order_momentum_accum_type");
  if (!has_velocity) spec.second_moment_type = dtype_of(given, "second_order_momentum_accum_type");
  // A sum in float16 would overflow. The combined SGD does not have a separate accumulator.
  spec.running_mean = !combined && spec.accumulator_type == ir::DType::kF16;
}

// Takes the extras' settings of a group that already has torch's numbers.
void take_extras(const optim::Extras& extras, ir::OptimiserGroup& group) {
  const optim::Arguments& given = extras.arguments();
  const auto says = [&](const char* flag) { return given.has(flag) && given.flag(flag); };
  Values& values = group.values;
  if (says("use_combined_accum")) values["velocity_scaling"] = given.number("velocity_scaling");
  if (says("maximize")) values["maximize"] = 1.0;
  if (given.has("max_weight_norm")) {  // its torch numbers are those of an AdamW
    values["max_weight_norm"] = given.number("max_weight_norm");
    values.erase("amsgrad");
    values.erase("maximize");
  }
  group.variable.clear();
  for (const auto& [name, value] : values) {
    if (!kStructure.contains(name) && !extras.isConstant(name)) group.variable.insert(name);
  }
  if (given.has("bias_correction") && !given.flag("bias_correction")) {
    values["bias_correction"] = 0.0;
  }
  if (says("use_tf_variant")) values["use_tf_variant"] = 1.0;
}

std::string name_of(const at::Tensor& parameter, const std::vector<NamedTensor>& state) {
  for (const auto& entry : state) {
    if (entry.tensor.is_same(parameter)) return entry.name;
  }
  return {};
}

// Throws a UserError for an optimiser without parameters of a trainable model, or with one twice.
void check_parameters(const ir::OptimiserSpec& spec, const std::vector<NamedTensor>& state) {
  std::set<std::string> seen;
  for (const auto& group : spec.groups) {
    for (const std::string& name : group.parameters) {
      if (seen.insert(name).second) continue;
      throw UserError(str("[optimiser] ", name, " is in several of the optimizer's parameter ",
                          "groups, but a step updates it once. Name each parameter once."));
    }
  }
  const bool trainable = std::any_of(
      state.begin(), state.end(), [](const auto& entry) { return entry.tensor.requires_grad(); });
  if (!trainable || !seen.empty()) return;
  throw UserError(
      "[optimiser] none of the optimizer's parameters belongs to the model. Make it from the "
      "wrapped model's own parameters().");
}

UserError constant_changed(const std::string& name, const std::string& where,
                           const std::string& was, const std::string& is) {
  return UserError(
      str("[optimiser] '", name, "'", where, " was compiled as ", was, " but got ", is,
          ". It had its default value then, which makes it a constant. Call markAsVariable() of an "
          "optimizer of poptorch::optim before the first call, or wrap the module again."));
}

void check_same(const std::string& name, double was, double is) {
  if (was != is) throw constant_changed(name, "", str(was), str(is));
}

void check_same(const std::string& name, ir::DType was, ir::DType is) {
  if (was != is) throw constant_changed(name, "", str(was), str(is));
}

}  // namespace

ir::OptimiserSpec describe(const torch::optim::Optimizer& optimizer,
                           const std::vector<NamedTensor>& state) {
  ir::OptimiserSpec spec;
  const auto* extras = dynamic_cast<const optim::Extras*>(&optimizer);
  for (const auto& given : optimizer.param_groups()) {
    const Described described = describe(given.options());
    ir::OptimiserGroup group;
    spec.kind = extras ? extras->arguments().kind() : described.kind;
    group.values = described.values;
    group.variable = variable_of(described);
    for (const std::string& name : kStructure) group.variable.erase(name);
    if (extras) take_extras(*extras, group);
    for (const auto& parameter : given.params()) {
      const std::string name = name_of(parameter, state);
      if (!name.empty()) group.parameters.push_back(name);
    }
    spec.groups.push_back(std::move(group));
  }
  if (extras) take_extras(*extras, spec);
  check_parameters(spec, state);
  return spec;
}

std::vector<std::pair<std::string, double>> changes(const ir::OptimiserSpec& compiled,
                                                    const ir::OptimiserSpec& wanted) {
  if (compiled.kind != wanted.kind || compiled.groups.size() != wanted.groups.size()) {
    throw UserError(str("[optimiser] the model was compiled with ", compiled.kind, " and ",
                        compiled.groups.size(), " groups but got ", wanted.kind, " and ",
                        wanted.groups.size(), ". Wrap the module again."));
  }
  check_same("max_grad_norm", compiled.max_grad_norm, wanted.max_grad_norm);
  check_same("accum_type", compiled.accumulator_type, wanted.accumulator_type);
  check_same("first moment's type", compiled.first_moment_type, wanted.first_moment_type);
  check_same("second moment's type", compiled.second_moment_type, wanted.second_moment_type);
  std::vector<std::pair<std::string, double>> slots;
  if (compiled.loss_scaling_variable) {
    slots.emplace_back("optimiser.loss_scaling", wanted.loss_scaling);
  } else {
    check_same("loss_scaling", compiled.loss_scaling, wanted.loss_scaling);
  }
  for (size_t i = 0; i < compiled.groups.size(); ++i) {
    const auto& [before, variable, parameters] = compiled.groups[i];
    const Values& after = wanted.groups[i].values;
    for (const auto& [name, value] : after) {
      const auto it = before.find(name);
      if (variable.contains(name)) {
        slots.emplace_back(str("optimiser.", name, ".", i), value);
      } else if (it == before.end() || value != it->second) {
        const std::string was = it == before.end() ? "its default" : str(it->second);
        throw constant_changed(name, str(" of group ", i), was, str(value));
      }
    }
    for (const auto& [name, value] : before) {
      if (!after.contains(name)) {
        throw constant_changed(name, str(" of group ", i), str(value), "its default");
      }
    }
  }
  return slots;
}

std::vector<std::pair<std::string, double>> rescaled(const ir::OptimiserSpec& before,
                                                     const ir::OptimiserSpec& after) {
  std::vector<std::pair<std::string, double>> slots;
  for (size_t i = 0; i < before.groups.size(); ++i) {
    const auto was = before.groups[i].values.find("velocity_scaling");
    const auto is = after.groups[i].values.find("velocity_scaling");
    if (was == before.groups[i].values.end() || is == after.groups[i].values.end()) continue;
    if (was->second == is->second) continue;
    for (const std::string& name : before.groups[i].parameters) {
      slots.emplace_back("optimiser.momentum_buffer." + name, is->second / was->second);
    }
  }
  return slots;
}

}  // namespace poptorch::frontend
