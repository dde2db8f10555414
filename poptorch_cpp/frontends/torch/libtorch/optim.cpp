// The table of the optimisers' arguments.
#include "poptorch/optim.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::optim {
namespace {

using support::str;
using support::UserError;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct ArgumentRow {
  std::string_view name;
  Argument otherwise;
  std::string_view optimisers;  // by their kinds; empty: all
  bool in_groups = true;        // in torch's param_groups(); else of the whole optimiser
};

const std::vector<ArgumentRow>& argument_rows() {
  static const std::vector<ArgumentRow> rows = {
      {"lr", 1e-3, "sgd adam adamw lamb"},
      {"lr", 1e-2, "rmsprop"},
      {"weight_decay", 0.0, "sgd adam rmsprop"},
      {"weight_decay", 1e-2, "adamw lamb"},
      {"momentum", 0.0, "sgd rmsprop"},
      {"dampening", 0.0, "sgd"},
      {"nesterov", false, "sgd"},
      {"beta1", 0.9, "adam adamw lamb"},
      {"beta2", 0.999, "adam adamw lamb"},
      {"eps", 1e-8, "adam adamw rmsprop lamb"},
      {"alpha", 0.99, "rmsprop"},
      {"centered", false, "rmsprop"},
      {"maximize", false, "sgd adam adamw rmsprop", false},
      {"use_tf_variant", false, "rmsprop", false},
      {"bias_correction", true, "adamw lamb", false},
      {"max_weight_norm", 65500.0, "lamb", false},
      {"velocity_scaling", 1.0, "sgd", false},
      {"use_combined_accum", false, "sgd", false},
      {"loss_scaling", 1.0, "", false},
      {"max_grad_norm", kInfinity, "sgd adam adamw", false},
      {"accum_type", torch::kFloat, "", false},
      {"velocity_accum_type", torch::kFloat, "sgd", false},
      {"first_order_momentum_accum_type", torch::kFloat, "adam adamw rmsprop lamb", false},
      {"second_order_momentum_accum_type", torch::kFloat, "adam adamw rmsprop lamb", false},
  };
  return rows;
}

bool names(std::string_view kinds, const std::string& kind) {
  return kinds.empty() ||
         (" " + std::string(kinds) + " ").find(" " + kind + " ") != std::string::npos;
}

const ArgumentRow& argument_row(const std::string& kind, const std::string& name) {
  std::vector<std::string> known;
  for (const ArgumentRow& row : argument_rows()) {
    if (!names(row.optimisers, kind)) continue;
    if (row.name == name) return row;
    known.emplace_back(row.name);
  }
  throw UserError(str("[optim] ", kind, " has no argument '", name, "'. It has ",
                      support::join(known, ", "), "."));
}

// Returns whether the argument may vary: numbers may, except max_grad_norm, which is structure.
bool may_vary(const ArgumentRow& row) {
  return std::holds_alternative<double>(row.otherwise) && row.name != "max_grad_norm";
}

}  // namespace

void Arguments::take(const std::string& name, const Argument& value) {
  const ArgumentRow& row = argument_row(kind_, name);
  if (row.otherwise.index() != value.index()) {
    const char* wanted[] = {"a bool", "a double", "a dtype"};
    throw UserError(str("[optim] ", name, " of ", kind_, " is ", wanted[row.otherwise.index()],
                        ", not ", wanted[value.index()], "."));
  }
  const auto* dtype = std::get_if<torch::Dtype>(&value);
  if (dtype && *dtype != torch::kFloat && *dtype != torch::kHalf) {
    throw UserError(str("[optim] accumulation types must be torch::kFloat or torch::kHalf, but ",
                        name, " is ", c10::toString(*dtype), "."));
  }
  const auto* number = std::get_if<double>(&value);
  const bool above_zero = name == "loss_scaling" || name == "max_grad_norm";
  if (number && above_zero && !(*number > 0)) {
    throw UserError(str("[optim] ", name, " must be a number above zero but is ", *number, "."));
  }
  values_.insert_or_assign(name, value);
}

bool Arguments::has(const std::string& name) const {
  const auto& rows = argument_rows();
  return std::any_of(rows.begin(), rows.end(), [&](const ArgumentRow& row) {
    return row.name == name && names(row.optimisers, kind_);
  });
}

Argument Arguments::get(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? argument_row(kind_, name).otherwise : it->second;
}

Extras::Extras(Arguments arguments) : arguments_(std::move(arguments)), variable_{"lr"} {
  for (const ArgumentRow& row : argument_rows()) {
    const std::string name(row.name);
    if (arguments_.is_set(name) && may_vary(row)) variable_.insert(name);
  }
}

Extras::~Extras() = default;

void Extras::set(const std::string& name, const Argument& value) {
  if (argument_row(arguments_.kind(), name).in_groups) {
    throw UserError(str("[optim] ", name, " of ", arguments_.kind(),
                        " is set for each parameter group. ",
                        "Change it in param_groups()[i].options()."));
  }
  arguments_.take(name, value);
}

bool Extras::isConstant(const std::string& name) const {
  argument_row(arguments_.kind(), name);
  return !variable_.contains(name);
}

void Extras::markAsConstant(const std::string& name) {
  argument_row(arguments_.kind(), name);
  variable_.erase(name);
}

void Extras::markAsVariable(const std::string& name) {
  if (may_vary(argument_row(arguments_.kind(), name))) {
    variable_.insert(name);
    return;
  }
  throw UserError(str("[optim] ", name, " is part of the structure of the update of ",
                      arguments_.kind(), ", so it is always a constant."));
}

void Extras::check_host_step() const {
  if (!arguments_.is_set("maximize") || !arguments_.flag("maximize")) return;
  throw UserError(
      "[optim] LibTorch's step() has no maximize. Train the model on the IPU, or negate its loss.");
}

torch::optim::SGDOptions of_torch(const SGDOptions& o) {
  torch::optim::SGDOptions made(o.number("lr"));
  made.momentum(o.number("momentum")).dampening(o.number("dampening"));
  return made.weight_decay(o.number("weight_decay")).nesterov(o.flag("nesterov"));
}

namespace {

template <typename Made>
Made with_moments(const Arguments& o) {
  Made made(o.number("lr"));
  made.betas({o.number("beta1"), o.number("beta2")}).eps(o.number("eps"));
  return made.weight_decay(o.number("weight_decay"));
}

}  // namespace

torch::optim::AdamOptions of_torch(const AdamOptions& o) {
  return with_moments<torch::optim::AdamOptions>(o);
}

torch::optim::AdamWOptions of_torch(const AdamWOptions& o) {
  return with_moments<torch::optim::AdamWOptions>(o);
}

torch::optim::RMSpropOptions of_torch(const RMSpropOptions& o) {
  torch::optim::RMSpropOptions made(o.number("lr"));
  made.alpha(o.number("alpha")).eps(o.number("eps")).momentum(o.number("momentum"));
  return made.weight_decay(o.number("weight_decay")).centered(o.flag("centered"));
}

LAMB::LAMB(std::vector<torch::Tensor> parameters, const LAMBOptions& options)
    : LAMB(std::vector{torch::optim::OptimizerParamGroup(std::move(parameters))}, options) {}

LAMB::LAMB(const std::vector<torch::optim::OptimizerParamGroup>& groups, const LAMBOptions& options)
    : Optimizer(groups, std::make_unique<torch::optim::AdamWOptions>(
                            with_moments<torch::optim::AdamWOptions>(options))),
      Extras(options) {}

torch::Tensor LAMB::step(LossClosure closure) {
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode enabled(true);
    loss = closure();
  }
  const at::NoGradGuard no_grad;
  const bool corrects = arguments().flag("bias_correction");
  const double most = arguments().number("max_weight_norm");
  for (auto& group : param_groups()) {
    const auto& o = static_cast<const torch::optim::AdamWOptions&>(group.options());
    const auto [beta1, beta2] = o.betas();
    for (auto& parameter : group.params()) {
      const torch::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      auto& slot = state_[parameter.unsafeGetTensorImpl()];
      if (!slot) {
        auto fresh = std::make_unique<torch::optim::AdamWParamState>();
        fresh->exp_avg(at::zeros_like(parameter)).exp_avg_sq(at::zeros_like(parameter)).step(0);
        slot = std::move(fresh);
      }
      auto& state = static_cast<torch::optim::AdamWParamState&>(*slot);
      state.step(state.step() + 1);
      torch::Tensor first = state.exp_avg().mul_(beta1).add_(gradient, 1 - beta1);
      torch::Tensor second = state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
      const auto steps = static_cast<double>(state.step());
      if (corrects) {
        first = first / (1 - std::pow(beta1, steps));
        second = second / (1 - std::pow(beta2, steps));
      }
      const torch::Tensor update = first / (second.sqrt() + o.eps()) + o.weight_decay() * parameter;
      const torch::Tensor weight_norm = parameter.norm().clamp_max(most);
      const torch::Tensor update_norm = update.norm();
      const torch::Tensor trust =
          at::where((weight_norm > 0).logical_and(update_norm > 0), weight_norm / update_norm, 1.0);
      parameter.sub_(o.lr() * trust * update);
    }
  }
  return loss;
}

}  // namespace poptorch::optim
