// The optimisers of poptorch::optim: against LibTorch's own steps, and what may change.
#include <torch/nn.h>
#include <torch/optim.h>

#include <poptorch/poptorch.hpp>

#include "testing.hpp"

namespace {

namespace nn = torch::nn;
namespace optim = poptorch::optim;
using poptorch::Options;
using torch::Tensor;

struct LayerImpl : nn::Module {
  LayerImpl() { linear = register_module("linear", nn::Linear(4, 3)); }
  Tensor forward(const Tensor& x) { return poptorch::identity_loss(linear(x).square(), "mean"); }
  nn::Linear linear{nullptr};
};
TORCH_MODULE(Layer);

// Returns two layers with the same weights.
std::pair<Layer, Layer> twins() {
  torch::manual_seed(5);
  Layer one;
  torch::manual_seed(5);
  return {one, Layer()};
}

// Ten steps on the device are LibTorch's ten on the host.
template <typename Ours, typename Theirs, typename OurOptions, typename TheirOptions>
void expect_steps(const OurOptions& our_options, const TheirOptions& their_options) {
  auto [layer, other] = twins();
  Ours ours(layer->parameters(), our_options);
  Theirs theirs(other->parameters(), their_options);
  auto model = poptorch::trainingModel(layer, Options(), ours);
  for (int step = 0; step < 10; ++step) {
    const Tensor x = torch::randn({8, 4});
    model(x);
    theirs.zero_grad();
    other->forward(x).backward();
    theirs.step();
  }
  model.copyWeightsToHost();
  EXPECT_TRUE(torch::allclose(layer->linear->weight, other->linear->weight, 1e-4, 1e-5));
}

TEST(CppOptim, StepsAsLibTorch) {
  expect_steps<optim::SGD, torch::optim::SGD>(
      optim::SGDOptions(0.1).momentum(0.9).nesterov(true).loss_scaling(64),
      torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true));
  expect_steps<optim::Adam, torch::optim::Adam>(
      optim::AdamOptions(0.01).betas(0.8, 0.9).eps(1e-4),
      torch::optim::AdamOptions(0.01).betas({0.8, 0.9}).eps(1e-4));
  expect_steps<optim::AdamW, torch::optim::AdamW>(
      optim::AdamWOptions(0.01).weight_decay(0.2).eps(1e-4),
      torch::optim::AdamWOptions(0.01).weight_decay(0.2).eps(1e-4));
  expect_steps<optim::RMSprop, torch::optim::RMSprop>(
      optim::RMSpropOptions(0.01).alpha(0.9).momentum(0.5).centered(true).eps(1e-3),
      torch::optim::RMSpropOptions(0.01).alpha(0.9).momentum(0.5).centered(true).eps(1e-3));
  expect_steps<torch::optim::RMSprop, torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01),
                                                             torch::optim::RMSpropOptions(0.01));
  const auto lamb = optim::LAMBOptions(0.01).weight_decay(0.1).eps(1e-4).max_weight_norm(0.8);
  expect_steps<optim::LAMB, optim::LAMB>(lamb, lamb);
}

TEST(CppOptim, ChangesWhatIsVariable) {
  Layer layer;
  optim::SGD sgd(layer->parameters(), optim::SGDOptions(0.1).momentum(0.9).loss_scaling(4));
  EXPECT_FALSE(sgd.isConstant("lr"));
  EXPECT_FALSE(sgd.isConstant("momentum"));
  EXPECT_TRUE(sgd.isConstant("weight_decay"));
  sgd.markAsVariable("weight_decay");
  auto model = poptorch::trainingModel(layer, Options(), sgd);
  const Tensor x = torch::randn({2, 4});
  model(x);
  expect_parts(execution_of(model.graph("traced")),
               {"loss_scaling_variable=true", "variable=[\"lr\", \"momentum\", \"weight_decay\"]"});
  auto& group = static_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options());
  group.lr(0).weight_decay(0.5).momentum(0);
  sgd.set("loss_scaling", 32.0);
  model.setOptimizer(sgd);
  EXPECT_EQ(model.readState("optimiser.loss_scaling").item<float>(), 32);
  model.copyWeightsToHost();
  const Tensor before = layer->linear->weight.detach().clone();
  model(x);
  model.copyWeightsToHost();
  EXPECT_TRUE(torch::equal(layer->linear->weight, before));
  group.dampening(0.5);
  expect_parts(error_of([&] { model.setOptimizer(sgd); }),
               {"'dampening' of group 0", "markAsVariable"});
}

TEST(CppOptim, HoldsStateInHalfTypes) {
  Layer layer;
  optim::Adam adam(layer->parameters(), optim::AdamOptions(0.01)
                                            .accum_type(torch::kHalf)
                                            .first_order_momentum_accum_type(torch::kHalf));
  auto model = poptorch::trainingModel(layer, Options().gradientAccumulation(2), adam);
  model(torch::randn({4, 4}));
  EXPECT_EQ(model.readState("optimiser.exp_avg.linear.weight").scalar_type(), torch::kHalf);
  EXPECT_EQ(model.readState("optimiser.exp_avg_sq.linear.weight").scalar_type(), torch::kFloat);
  expect_parts(execution_of(model.graph("traced")), {"accumulator_type=f16", "running_mean=true"});
}

TEST(CppOptim, RefusesWithTheCure) {
  expect_parts(error_of([] { optim::LAMBOptions().set("momentum", 0.9); }),
               {"lamb has no argument 'momentum'", "max_weight_norm"});
  expect_parts(error_of([] { optim::SGDOptions().set("nesterov", 1.0); }),
               {"a bool, not a double"});
  expect_parts(error_of([] { optim::SGDOptions().accum_type(torch::kInt); }),
               {"torch::kFloat or torch::kHalf"});
  expect_parts(error_of([] { optim::SGDOptions().loss_scaling(0); }), {"above zero"});
  Layer layer, other;
  optim::SGD sgd(layer->parameters(), optim::SGDOptions(0.1).maximize(true));
  expect_parts(error_of([&] { sgd.set("lr", 0.5); }), {"Change it in param_groups()"});
  expect_parts(error_of([&] { sgd.step(); }), {"no maximize"});
  expect_parts(error_of([&] { sgd.markAsVariable("nesterov"); }), {"always a constant"});
  expect_parts(error_of([&] { poptorch::trainingModel(other, Options(), sgd); }),
               {"none of the optimizer's parameters"});
}

}  // namespace
