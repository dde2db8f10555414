// The optimisers of torch::optim with PopTorch's extra arguments, and LAMB.
//
//   poptorch::optim::SGD sgd(network->parameters(),
//                            poptorch::optim::SGDOptions(0.1).momentum(0.9).loss_scaling(128));
//
// Arguments that are not set keep their default and are compiled in as constants. The learning
// rate, and arguments that are set, may change after compilation: pass them to
// Executor::setOptimizer.
#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace poptorch::optim {

using Argument = std::variant<bool, double, torch::Dtype>;

// The arguments of one optimiser, by the names that they have in Python.
class Arguments {
 public:
  // Sets an argument. Throws for a name that the optimiser does not have, or a value of another
  // type. Accumulation types are torch::kFloat and torch::kHalf; loss_scaling and max_grad_norm
  // must be above 0.
  void take(const std::string& name, const Argument& value);
  const std::string& kind() const { return kind_; }
  bool has(const std::string& name) const;
  bool is_set(const std::string& name) const { return values_.contains(name); }
  // Returns the value that was set, or the default.
  Argument get(const std::string& name) const;
  bool flag(const std::string& name) const { return std::get<bool>(get(name)); }
  double number(const std::string& name) const { return std::get<double>(get(name)); }
  torch::Dtype dtype(const std::string& name) const { return std::get<torch::Dtype>(get(name)); }

 protected:
  explicit Arguments(std::string kind) : kind_(std::move(kind)) {}

 private:
  std::string kind_;
  std::map<std::string, Argument> values_;
};

// The arguments that all optimisers have.
template <typename Self>
class CommonOptions : public Arguments {
 public:
  Self& set(const std::string& name, const Argument& value) {
    take(name, value);
    return static_cast<Self&>(*this);
  }
  Self& lr(double value) { return set("lr", value); }
  Self& weight_decay(double value) { return set("weight_decay", value); }
  Self& loss_scaling(double value) { return set("loss_scaling", value); }
  Self& accum_type(torch::Dtype type) { return set("accum_type", type); }

 protected:
  using Arguments::Arguments;
};

class SGDOptions : public CommonOptions<SGDOptions> {
 public:
  SGDOptions() : CommonOptions("sgd") {}
  SGDOptions(double learning_rate) : SGDOptions() { lr(learning_rate); }
  SGDOptions& momentum(double value) { return set("momentum", value); }
  SGDOptions& dampening(double value) { return set("dampening", value); }
  SGDOptions& nesterov(bool value) { return set("nesterov", value); }
  SGDOptions& maximize(bool value) { return set("maximize", value); }
  SGDOptions& velocity_scaling(double value) { return set("velocity_scaling", value); }
  SGDOptions& use_combined_accum(bool value) { return set("use_combined_accum", value); }
  SGDOptions& velocity_accum_type(torch::Dtype type) { return set("velocity_accum_type", type); }
  SGDOptions& max_grad_norm(double value) { return set("max_grad_norm", value); }
};

// The arguments of optimisers with two moments.
template <typename Self>
class MomentOptions : public CommonOptions<Self> {
 public:
  Self& eps(double value) { return this->set("eps", value); }
  Self& first_order_momentum_accum_type(torch::Dtype type) {
    return this->set("first_order_momentum_accum_type", type);
  }
  Self& second_order_momentum_accum_type(torch::Dtype type) {
    return this->set("second_order_momentum_accum_type", type);
  }

 protected:
  using CommonOptions<Self>::CommonOptions;
};

template <typename Self>
class BetaOptions : public MomentOptions<Self> {
 public:
  Self& betas(double first, double second) {
    return this->set("beta1", first).set("beta2", second);
  }

 protected:
  using MomentOptions<Self>::MomentOptions;
};

class AdamOptions : public BetaOptions<AdamOptions> {
 public:
  AdamOptions() : BetaOptions("adam") {}
  AdamOptions(double learning_rate) : AdamOptions() { lr(learning_rate); }
  AdamOptions& maximize(bool value) { return set("maximize", value); }
  AdamOptions& max_grad_norm(double value) { return set("max_grad_norm", value); }
};

class AdamWOptions : public BetaOptions<AdamWOptions> {
 public:
  AdamWOptions() : BetaOptions("adamw") {}
  AdamWOptions(double learning_rate) : AdamWOptions() { lr(learning_rate); }
  AdamWOptions& maximize(bool value) { return set("maximize", value); }
  AdamWOptions& max_grad_norm(double value) { return set("max_grad_norm", value); }
  AdamWOptions& bias_correction(bool value) { return set("bias_correction", value); }
};

class RMSpropOptions : public MomentOptions<RMSpropOptions> {
 public:
  RMSpropOptions() : MomentOptions("rmsprop") {}
  RMSpropOptions(double learning_rate) : RMSpropOptions() { lr(learning_rate); }
  RMSpropOptions& alpha(double value) { return set("alpha", value); }
  RMSpropOptions& momentum(double value) { return set("momentum", value); }
  RMSpropOptions& maximize(bool value) { return set("maximize", value); }
  RMSpropOptions& centered(bool value) { return set("centered", value); }
  RMSpropOptions& use_tf_variant(bool value) { return set("use_tf_variant", value); }
};

class LAMBOptions : public BetaOptions<LAMBOptions> {
 public:
  LAMBOptions() : BetaOptions("lamb") {}
  LAMBOptions(double learning_rate) : LAMBOptions() { lr(learning_rate); }
  LAMBOptions& max_weight_norm(double value) { return set("max_weight_norm", value); }
  LAMBOptions& bias_correction(bool value) { return set("bias_correction", value); }
};

// The arguments that these optimisers have beyond torch's, and which of all arguments are variable.
// The numbers of groups are in param_groups().
class Extras {
 public:
  explicit Extras(Arguments arguments);
  virtual ~Extras();

  const Arguments& arguments() const { return arguments_; }
  // Sets an argument of the whole optimiser, such as "loss_scaling". Throws as Arguments::take
  // does, and for an argument that param_groups() has.
  void set(const std::string& name, const Argument& value);
  // Throw for a name that the optimiser does not have. markAsVariable also throws for an argument
  // that is part of the structure of the update.
  bool isConstant(const std::string& name) const;
  void markAsConstant(const std::string& name);
  void markAsVariable(const std::string& name);

 protected:
  void check_host_step() const;  // throws if torch's own update differs

 private:
  Arguments arguments_;
  std::set<std::string> variable_;
};

// Return the options of torch's own optimisers for these arguments.
torch::optim::SGDOptions of_torch(const SGDOptions& options);
torch::optim::AdamOptions of_torch(const AdamOptions& options);
torch::optim::AdamWOptions of_torch(const AdamWOptions& options);
torch::optim::RMSpropOptions of_torch(const RMSpropOptions& options);

// An optimiser of torch with extras. It takes parameters, or a vector of OptimizerParamGroup. Steps
// on the host are torch's: the extras apply on the device.
template <typename Torch, typename Options>
class Extended : public Torch, public Extras {
 public:
  template <typename Parameters>
  explicit Extended(Parameters&& parameters, const Options& options = {})
      : Torch(std::forward<Parameters>(parameters), of_torch(options)), Extras(options) {}
  torch::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override {
    check_host_step();
    return Torch::step(closure);
  }
};

using SGD = Extended<torch::optim::SGD, SGDOptions>;
using Adam = Extended<torch::optim::Adam, AdamOptions>;
using AdamW = Extended<torch::optim::AdamW, AdamWOptions>;
using RMSprop = Extended<torch::optim::RMSprop, RMSpropOptions>;

// Layer-wise adaptive moments: u = m / (sqrt(v) + eps) + weight_decay p. The update is scaled by
// min(|p|, max_weight_norm) / |u|, or by 1 where either norm is 0. Groups have
// torch::optim::AdamWOptions.
class LAMB : public torch::optim::Optimizer, public Extras {
 public:
  explicit LAMB(std::vector<torch::Tensor> parameters, const LAMBOptions& options = {});
  explicit LAMB(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                const LAMBOptions& options = {});
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace poptorch::optim
