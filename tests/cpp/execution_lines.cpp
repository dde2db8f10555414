// Prints how a model is executed that was wrapped with the options of a case, or what becomes of
// options by name: execution_lines CASE, or execution_lines set NAME=VALUE.
#include <torch/nn.h>
#include <torch/optim.h>

#include <functional>
#include <iostream>
#include <map>
#include <poptorch/poptorch.hpp>

#include "testing.hpp"

namespace {

namespace nn = torch::nn;
namespace optim = poptorch::optim;
using poptorch::Options;

struct NetworkImpl : nn::Module {
  NetworkImpl() {
    first = register_module("first", nn::Linear(8, 8));
    last = register_module("last", nn::Linear(8, 4));
  }
  poptorch::Tensors forward(torch::Tensor x) {
    {
      const poptorch::Block block("a", 0);
      x = torch::relu(first(x));
    }
    const poptorch::Block block("b", 0);
    x = last(x);
    return {x, poptorch::identity_loss(x, "mean")};
  }
  nn::Linear first{nullptr}, last{nullptr};
};
TORCH_MODULE(Network);

using Parameters = std::vector<torch::Tensor>;
using Made = std::unique_ptr<torch::optim::Optimizer>;

template <typename Optimizer, typename Arguments>
std::function<Made(Parameters)> of(const Arguments& arguments) {
  return [=](Parameters parameters) -> Made {
    return std::make_unique<Optimizer>(std::move(parameters), arguments);
  };
}

struct Case {
  Options options;
  std::function<Made(Parameters)> optimizer = of<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
};

poptorch::TensorLocationSettings every_setting() {
  return poptorch::TensorLocationSettings()
      .minElementsForOffChip(4)
      .minElementsForReplicatedTensorSharding(16)
      .useOnChipStorage(false)
      .useReplicatedTensorSharding()
      .useIOTilesToLoad()
      .useIOTilesToStore();
}

std::map<std::string, Case> cases() {
  std::map<std::string, Case> all;
  all["plain"] = {};
  all["counts"]
      .options.deviceIterations(2)
      .gradientAccumulation(3)
      .replicationFactor(4)
      .inputReplicaGrouping(2, poptorch::CommGroupType::Orthogonal)
      .outputMode(poptorch::OutputMode::EveryN, 3)
      .randomSeed(0xfedcba9876543210)
      .autoRoundNumIPUs()
      .syncPattern(poptorch::SyncPattern::SinglePipeline)
      .memoryLimit(poptorch::MemoryLimit::Off);
  all["checks"]
      .options.enableFloatingPointExceptions(true)
      .enableStochasticRounding(true)
      .checkIndices(true);
  all["reductions"]
      .options.gradientAccumulation(2)
      .accumulationAndReplicationReductionType(poptorch::ReductionType::Sum)
      .setAutomaticLossScaling(true);
  all["running"].options.gradientAccumulation(2).setMeanAccumulationAndReplicationReductionStrategy(
      poptorch::MeanReductionStrategy::Running);
  all["anchors"].options.outputMode(poptorch::OutputMode::Sum).anchorTensor("w", "first.weight");
  all["anchors"].options.anchorTensor("g", "Gradient___*", poptorch::OutputMode::Final);
  all["locations"]
      .options.numIOTiles(64)
      .setActivationLocation(every_setting())
      .setWeightLocation(poptorch::TensorLocationSettings().useOnChipStorage())
      .setOptimizerLocation(every_setting())
      .setAccumulatorLocation(poptorch::TensorLocationSettings());
  poptorch::SerialPhasedExecution serial("a", poptorch::Phase("b"));
  serial.setTensorsLiveness(poptorch::Liveness::OffChipAfterEachPhase).useSeparateBackwardPhase();
  all["serial"].options.executionStrategy(serial);
  poptorch::ParallelPhasedExecution parallel(poptorch::Phase("a").ipus({0}),
                                             poptorch::Phase("b").ipus({1}));
  all["parallel"].options.executionStrategy(parallel.sendTensorsOffChipAfterFwd());
  all["sharded"].options.executionStrategy(
      poptorch::ShardedExecution("a", poptorch::Stage("b").ipu(1)));
  all["torch sgd"].optimizer = of<torch::optim::SGD>(
      torch::optim::SGDOptions(0.2).momentum(0.5).weight_decay(0.1).nesterov(true));
  all["torch adam"].optimizer =
      of<torch::optim::Adam>(torch::optim::AdamOptions(0.2).betas({0.9, 0.99}));
  all["torch adamw"].optimizer = of<torch::optim::AdamW>(torch::optim::AdamWOptions(0.2));
  all["torch rmsprop"].optimizer =
      of<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.2).alpha(0.5).centered(true));
  all["sgd"].optimizer = of<optim::SGD>(
      optim::SGDOptions(0.2).momentum(0.5).velocity_scaling(8).use_combined_accum(true).maximize(
          true));
  all["adam"].optimizer = of<optim::Adam>(
      optim::AdamOptions(0.2).eps(1e-6).loss_scaling(4).max_grad_norm(2).accum_type(torch::kHalf));
  all["adamw"].optimizer =
      of<optim::AdamW>(optim::AdamWOptions().bias_correction(false).weight_decay(0.5));
  all["rmsprop"].optimizer = of<optim::RMSprop>(
      optim::RMSpropOptions().use_tf_variant(true).second_order_momentum_accum_type(torch::kHalf));
  all["lamb"].optimizer =
      of<optim::LAMB>(optim::LAMBOptions(0.2).max_weight_norm(3).bias_correction(false));
  return all;
}

std::string lines_of(const Case& one) {
  Network network;
  const Made optimizer = one.optimizer(network->parameters());
  auto model = poptorch::trainingModel(network, one.options, *optimizer);
  model.compile(torch::randn({24, 8}));
  return execution_of(model.graph("traced"));
}

poptorch::OptionValue value_of(const std::string& text) {
  if (text.empty()) return text;
  if (text == "[]") return std::vector<std::string>();
  if (text == "true" || text == "false") return text == "true";
  if (text.find_first_not_of("0123456789") == std::string::npos) return int64_t{std::stoll(text)};
  if (text.find_first_not_of("0123456789.") == std::string::npos) return std::stod(text);
  return text;
}

}  // namespace

int main(int count, char** arguments) try {
  const std::string what = count > 1 ? arguments[1] : "plain";
  if (what != "set") {
    std::cout << lines_of(cases().at(what));
    return 0;
  }
  const std::string option = arguments[2];
  const size_t equals = option.find('=');
  Options().set(option.substr(0, equals), value_of(option.substr(equals + 1)));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
