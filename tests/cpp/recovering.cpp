// A program that tests/meta/test_cpp.py runs with POPTORCH_FAULT: it trains, continues from its
// checkpoint when the device fails, and prints the recovery actions and the final weights.
#include <torch/nn.h>
#include <torch/optim.h>

#include <iostream>
#include <map>
#include <memory>
#include <poptorch/poptorch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace nn = torch::nn;
using torch::Tensor;

struct NetworkImpl : nn::Module {
  NetworkImpl() {
    first = register_module("first", nn::Linear(4, 8));
    last = register_module("last", nn::Linear(8, 2));
  }
  Tensor forward(const Tensor& x, const Tensor& target) {
    const Tensor hidden = torch::dropout(torch::relu(first(x)), 0.2, is_training());
    return torch::mse_loss(last(hidden), target);
  }
  nn::Linear first{nullptr}, last{nullptr};
};
TORCH_MODULE(Network);

struct Checkpoint {
  int step = 0;
  std::map<std::string, Tensor> states;
  std::pair<uint64_t, uint64_t> random;
};

class Training {
 public:
  // The network's weights are those of the checkpoint, if there is one.
  Training(Network network, const Checkpoint* checkpoint)
      : network_(std::move(network)),
        optimiser_(network_->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
        model_(poptorch::trainingModel(network_, options(), optimiser_)) {
    model_.compile(x(0), target(0));
    if (!checkpoint) return;
    for (const auto& [slot, value] : checkpoint->states) model_.writeState(slot, value);
    model_.setRngState(checkpoint->random);
  }

  void step(int number) { model_(x(number), target(number)); }

  Checkpoint save(int step) const {
    Checkpoint saved{.step = step, .states = {}, .random = model_.rngState()};
    for (const std::string& slot : model_.stateNames()) {
      if (!slot.starts_with("accumulator.")) saved.states[slot] = model_.readState(slot);
    }
    return saved;
  }

 private:
  static poptorch::Options options() {
    return poptorch::Options().randomSeed(5).gradientAccumulation(2);
  }
  static Tensor x(int number) { return torch::linspace(-1, 1 + number, 32).reshape({8, 4}); }
  static Tensor target(int number) { return torch::linspace(number, 1, 16).reshape({8, 2}); }

  Network network_;
  torch::optim::SGD optimiser_;
  poptorch::Model<NetworkImpl> model_;
};

Checkpoint train(const Network& network, int steps) {
  std::unique_ptr<Training> training;
  Checkpoint saved;
  for (int step = 0; step < steps;) {
    try {
      if (!training) {
        training = std::make_unique<Training>(network, saved.step > 0 ? &saved : nullptr);
      }
      training->step(step);
      if ((step + 1) % 2 == 0) saved = training->save(step + 1);
      ++step;
    } catch (const poptorch::RecoverableError& error) {
      std::cout << error.recovery_action() << "\n";
      training.reset();
      step = saved.step;
    }
  }
  return saved;
}

}  // namespace

int main() try {
  torch::manual_seed(1);
  const Checkpoint end = train(Network(), 6);
  for (const auto& [slot, value] : end.states) {
    std::cout << slot << " " << value.to(torch::kDouble).sum().item<double>() << " ";
    std::cout << value.to(torch::kDouble).square().sum().item<double>() << "\n";
  }
  return 0;
} catch (const poptorch::UnrecoverableError& error) {
  std::cout << "UNRECOVERABLE " << error.what() << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
