// Trains a network in phases on one IPU: weights, optimiser state and what waits for the backward
// pass are in Streaming Memory while no phase uses them. With a folder as its argument it starts
// from start.pt there, and writes end.pt and plan.txt.
#include <torch/nn.h>

#include <cstdio>
#include <exception>
#include <poptorch/poptorch.hpp>

#include "tensor_files.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct NetworkImpl : nn::Module {
  NetworkImpl() {
    first = register_module("first", nn::Linear(8, 32));
    second = register_module("second", nn::Linear(32, 32));
    last = register_module("last", nn::Linear(32, 2));
  }

  poptorch::Tensors forward(torch::Tensor x, const torch::Tensor& target) {
    x = last(torch::sigmoid(second(torch::relu(first(x)))));
    return {x, F::mse_loss(x, target)};
  }

  nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Network);

int main(int count, char** arguments) try {
  torch::manual_seed(0);
  const std::string folder = count > 1 ? arguments[1] : "";
  Network network;
  torch::Tensor x = torch::randn({16, 8}), target = torch::randn({16, 2});
  if (!folder.empty()) {
    const NamedTensors start = load_tensors(folder + "/start.pt");
    take_weights(*network, start);
    x = start.at("x");
    target = start.at("target");
  }

  poptorch::begin_block(*network->first, "front");
  poptorch::begin_block(*network->second, "middle");
  poptorch::begin_block(*network->last, "back");
  poptorch::SerialPhasedExecution strategy(poptorch::Phase("front"), poptorch::Phase("middle"),
                                           poptorch::Phase("back"));
  strategy.setTensorsLiveness(poptorch::Liveness::OffChipAfterFwd).useSeparateBackwardPhase();
  const auto off_chip = poptorch::TensorLocationSettings().useOnChipStorage(false);
  const auto options = poptorch::Options()
                           .executionStrategy(strategy)
                           .gradientAccumulation(2)
                           .setOptimizerLocation(off_chip)
                           .outputMode(poptorch::OutputMode::All);
  poptorch::optim::Adam optimizer(
      network->parameters(), poptorch::optim::AdamOptions(0.01).betas(0.8, 0.99).max_grad_norm(1));
  auto model = poptorch::trainingModel(network, options, optimizer);
  NamedTensors end;
  for (int step = 0; step < 4; ++step) {
    const auto outputs = model(x, target);
    std::printf("loss %.6f\n", outputs[1].mean().item<double>());
    end["loss" + std::to_string(step)] = outputs[1];
  }
  std::printf("%lld bytes in Streaming Memory\n",
              static_cast<long long>(model.report().streaming_bytes));
  model.printSchedule(1);
  if (folder.empty()) return 0;
  model.copyWeightsToHost();
  end.merge(weights_of(*network));
  save_tensors(folder + "/end.pt", end);
  std::ofstream(folder + "/plan.txt") << model.graph("traced");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
