// Implements optimiser.hpp.
#include "frontends/torch/libtorch/optimiser.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;
using Values = std::map<std::string, double>;

Values values_of(const torch::optim::SGDOptions& o) {
  return {{"lr", o.lr()},
          {"momentum", o.momentum()},
          {"dampening", o.dampening()},
          {"weight_decay", o.weight_decay()},
          {"nesterov", o.nesterov() ? 1.0 : 0.0}};
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
          {"weight_decay", o.weight_decay()}};
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
  throw support::UnsupportedError(
      "[optimiser] this optimiser is not supported. Use torch::optim::SGD, Adam or AdamW.");
}

std::string name_of(const at::Tensor& parameter, const std::vector<NamedTensor>& state) {
  for (const auto& entry : state) {
    if (entry.tensor.is_same(parameter)) return entry.name;
  }
  return {};
}

}  // namespace

ir::OptimiserSpec describe(const torch::optim::Optimizer& optimizer,
                           const std::vector<NamedTensor>& state) {
  ir::OptimiserSpec spec;
  for (const auto& given : optimizer.param_groups()) {
    const Described described = describe(given.options());
    ir::OptimiserGroup group;
    spec.kind = described.kind;
    group.values = described.values;
    // As in Python: the learning rate and what was set may change later.
    group.variable.insert("lr");
    for (const auto& [name, value] : described.values) {
      if (name != "nesterov" && value != described.defaults.at(name)) group.variable.insert(name);
    }
    for (const auto& parameter : given.params()) {
      const std::string name = name_of(parameter, state);
      if (!name.empty()) group.parameters.push_back(name);
    }
    spec.groups.push_back(std::move(group));
  }
  return spec;
}

std::vector<std::pair<std::string, double>> changes(const ir::OptimiserSpec& compiled,
                                                    const ir::OptimiserSpec& wanted) {
  if (compiled.kind != wanted.kind || compiled.groups.size() != wanted.groups.size()) {
    throw support::UserError(str("[optimiser] the model was compiled with ", compiled.kind, " and ",
                                 compiled.groups.size(), " groups but got ", wanted.kind, " and ",
                                 wanted.groups.size(), ". Wrap the module anew."));
  }
  std::vector<std::pair<std::string, double>> slots;
  for (size_t i = 0; i < compiled.groups.size(); ++i) {
    for (const auto& [name, value] : wanted.groups[i].values) {
      if (compiled.groups[i].variable.contains(name)) {
        slots.emplace_back(str("optimiser.", name, ".", i), value);
      } else if (value != compiled.groups[i].values.at(name)) {
        throw support::UserError(str("[optimiser] '", name, "' of group ", i, " was compiled as ",
                                     compiled.groups[i].values.at(name), " but got ", value,
                                     ". It had torch's default then, which makes it a constant; "
                                     "wrap the module anew."));
      }
    }
  }
  return slots;
}

}  // namespace poptorch::frontend
