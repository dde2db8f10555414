// Trains four replicas of a network, each on different rows. They share all weights except a scale:
// each half of the replicas has one scale. Optimiser state is split over the replicas. With a
// folder as its argument it starts from start.pt there, and writes end.pt and plan.txt.
#include <torch/nn.h>

#include <cstdio>
#include <exception>
#include <poptorch/poptorch.hpp>

#include "tensor_files.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct NetworkImpl : nn::Module {
  NetworkImpl() {
    convolution = register_module("convolution", nn::Conv2d(1, 4, 3));
    norm = register_module("norm", nn::BatchNorm2d(4));
    head = register_module("head", nn::Linear(16, 3));
    scale = register_parameter("scale", torch::ones({2, 3}));  // a value a group
  }

  poptorch::Tensors forward(torch::Tensor x, const torch::Tensor& labels) {
    x = head(torch::relu(norm(convolution(x))).flatten(1)) * scale;
    return {x, F::cross_entropy(x, labels)};
  }

  nn::Conv2d convolution{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear head{nullptr};
  torch::Tensor scale;
};
TORCH_MODULE(Network);

int main(int count, char** arguments) try {
  torch::manual_seed(0);
  const std::string folder = count > 1 ? arguments[1] : "";
  Network network;
  torch::Tensor x = torch::randn({32, 1, 4, 4}), labels = torch::randint(0, 3, {32});
  if (!folder.empty()) {
    const NamedTensors start = load_tensors(folder + "/start.pt");
    take_weights(*network, start);
    x = start.at("x");
    labels = start.at("labels");
  }

  const auto sharded = poptorch::TensorLocationSettings()
                           .useReplicatedTensorSharding()
                           .minElementsForReplicatedTensorSharding(4);
  auto options = poptorch::Options()
                     .replicationFactor(4)
                     .gradientAccumulation(2)
                     .broadcastBuffers(false)
                     .setOptimizerLocation(sharded)
                     .outputMode(poptorch::OutputMode::All);
  options.anchorTensor("gradient", "Gradient___head.bias");
  poptorch::optim::AdamW optimizer(network->parameters(),
                                   poptorch::optim::AdamWOptions(0.01).weight_decay(0.05));
  auto model = poptorch::trainingModel(network, options, optimizer);
  model.replicaGrouping(network->scale, poptorch::CommGroupType::Consecutive, 2,
                        poptorch::VariableRetrievalMode::OnePerGroup);
  NamedTensors end;
  for (int step = 0; step < 4; ++step) {
    const auto outputs = model(x, labels);
    std::printf("loss %.6f\n", outputs[1].mean().item<double>());
    end["loss" + std::to_string(step)] = outputs[1];
  }
  for (const auto& [name, gradient] : model.getAnchoredTensor("gradient")) end[name] = gradient;
  std::printf("%d replicas\n", model.report().replicas);
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
