// A network that is divided over two IPUs in two ways: by scopes in forward, and from outside.

#include <torch/torch.h>

#include <iostream>
#include <poptorch/poptorch.hpp>

struct ScopedImpl : torch::nn::Module {
  ScopedImpl() {
    first = register_module("first", torch::nn::Linear(8, 16));
    second = register_module("second", torch::nn::Linear(16, 4));
  }

  std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor target) {
    {
      poptorch::Block front("front", 0);
      x = torch::relu(first(x));
    }
    poptorch::Block back("back", 1);
    x = second(x);
    return {x, torch::nn::functional::mse_loss(x, target)};
  }

  torch::nn::Linear first = nullptr, second = nullptr;
};
TORCH_MODULE(Scoped);

struct PlainImpl : ScopedImpl {
  std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor target) {
    x = second(torch::relu(first(x)));
    return {x, torch::nn::functional::mse_loss(x, target)};
  }
};
TORCH_MODULE(Plain);

template <typename Network>
float train(const char* name, Network network, const poptorch::Options& options) {
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1));
  auto training = poptorch::trainingModel(network, options, optimizer);
  float loss = 0;
  for (int step = 0; step < 5; ++step) {
    torch::manual_seed(step);
    loss = training(torch::randn({12, 8}), torch::randn({12, 4}))[1].template item<float>();
  }
  std::cout << name << ": " << training.report().ipus.size() << " IPUs, loss " << loss << "\n";
  return loss;
}

template <typename Network>
Network made() {
  torch::manual_seed(0);
  return Network();
}

int main() {
  auto options = poptorch::Options().gradientAccumulation(3);
  Plain plain = made<Plain>(), cut = made<Plain>();
  const float whole = train("one IPU", plain, options);
  poptorch::begin_block(*cut->second, "back", 1);
  const float outside = train("begun at a layer", cut, options);
  const float pipelined = train("scopes, pipelined", made<Scoped>(), options);
  options.executionStrategy(poptorch::ShardedExecution());
  const float sharded = train("scopes, sharded", made<Scoped>(), options);
  const bool equal = whole == outside && whole == pipelined && whole == sharded;
  std::cout << "equal: " << (equal ? "yes" : "no") << "\n";
  return equal ? 0 : 1;
}
