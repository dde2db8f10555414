// Trains a network whose stages run on four IPUs at one time, each on another micro-batch. With a
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
    embed = register_module("embed", nn::Linear(6, 16));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({16})));
    middle = register_module("middle", nn::Linear(16, 16));
    head = register_module("head", nn::Linear(16, 3));
  }

  poptorch::Tensors forward(torch::Tensor x, const torch::Tensor& labels) {
    {
      const poptorch::Block block("embed");
      x = torch::gelu(embed(x));
    }
    {
      const poptorch::Block block("norm");
      x = poptorch::recomputationCheckpoint(norm(x));
    }
    const auto tanh = [this](const torch::Tensor& y) { return y + torch::tanh(middle(y)); };
    x = poptorch::BlockFunction(tanh, "middle")(x);
    const poptorch::Block block("head");
    x = head(x);
    return {x, poptorch::identity_loss(F::cross_entropy(x, labels), "none")};
  }

  nn::Linear embed{nullptr}, middle{nullptr}, head{nullptr};
  nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Network);

int main(int count, char** arguments) try {
  torch::manual_seed(0);
  const std::string folder = count > 1 ? arguments[1] : "";
  Network network;
  torch::Tensor x = torch::randn({48, 6}), labels = torch::randint(0, 3, {48});
  if (!folder.empty()) {
    const NamedTensors start = load_tensors(folder + "/start.pt");
    take_weights(*network, start);
    x = start.at("x");
    labels = start.at("labels");
  }

  auto strategy = poptorch::PipelinedExecution("embed", poptorch::Stage("norm").ipu(1), "middle",
                                               poptorch::Stage("head").ipu(3));
  const auto options =
      poptorch::Options().executionStrategy(strategy).gradientAccumulation(8).deviceIterations(2);
  poptorch::optim::SGD optimizer(
      network->parameters(),
      poptorch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01).loss_scaling(16));
  auto model = poptorch::trainingModel(network, options, optimizer);
  NamedTensors end;
  for (int step = 0; step < 4; ++step) {
    const auto outputs = model(x, labels);
    std::printf("loss %.6f\n", outputs[1].item<double>());
    end["loss" + std::to_string(step)] = outputs[1];
  }
  model.printSchedule(8);
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
