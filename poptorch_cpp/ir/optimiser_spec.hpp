// The front ends' description of an optimiser; transforms/lower_optimiser.cpp turns it into update
// ops. Attribute names are torch's ("lr", "momentum", "betas" as "beta1" and "beta2", ...).
#pragma once

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/type.hpp"

namespace poptorch::ir {

struct OptimiserGroup {
  std::map<std::string, double> values = {};
  // Names whose value may change after compilation. Each is a state slot of kind "hyper_parameter"
  // named `optimiser.<name>.<group>`; the rest are constants in the program.
  std::set<std::string> variable = {};
  std::vector<std::string> parameters = {};  // state slots
};

struct OptimiserSpec {
  // One of "sgd", "adam", "adamw", "rmsprop", "lamb".
  std::string kind = "sgd";
  std::vector<OptimiserGroup> groups;
  double loss_scaling = 1.0;
  bool loss_scaling_variable = false;  // slot `optimiser.loss_scaling`
  // Multiplies the loss scaling by a factor that adapts to the gradients: slot
  // `optimiser.loss_scale_factor`. Updates from gradients that are not finite are skipped.
  bool automatic_loss_scaling = false;
  // Takes the mean over micro-batches during accumulation: each gradient is divided before it is
  // added.
  bool running_mean = false;
  double max_grad_norm = std::numeric_limits<double>::infinity();  // of all gradients together
  DType accumulator_type = DType::kF32;
  DType first_moment_type = DType::kF32;
  DType second_moment_type = DType::kF32;
};

// The lowering creates slots with these names: `optimiser.momentum_buffer.fc.weight`,
// `optimiser.exp_avg.fc.weight`, `optimiser.exp_avg_sq.fc.weight`, `optimiser.step`,
// `accumulator.fc.weight`.

}  // namespace poptorch::ir
