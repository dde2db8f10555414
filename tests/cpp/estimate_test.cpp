// Executor::estimate: figures of a model that is never compiled for a device.
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <poptorch/poptorch.hpp>
#include <string>

#include "testing.hpp"

namespace {

namespace nn = torch::nn;
using torch::Tensor;

struct NetworkImpl : nn::Module {
  explicit NetworkImpl(int64_t width) {
    first = register_module("first", nn::Linear(8, width));
    last = register_module("last", nn::Linear(width, 8));
  }
  Tensor forward(const Tensor& x) {
    return poptorch::identity_loss(last(torch::relu(first(x))), "mean");
  }
  nn::Linear first{nullptr}, last{nullptr};
};
TORCH_MODULE(Network);

// Its weight has no memory.
struct WideImpl : nn::Module {
  WideImpl() {
    weight = register_parameter("weight", torch::empty({8, 100'000'000}, torch::kMeta));
  }
  Tensor forward(const Tensor& x) { return x.matmul(weight); }
  Tensor weight;
};
TORCH_MODULE(Wide);

poptorch::Options options() {
  return poptorch::Options().replicationFactor(2).gradientAccumulation(4).deviceIterations(3);
}

TEST(Estimate, EqualsTheReportOfTheCompiledModel) {
  Network network(16);
  const torch::optim::SGD optimiser(network->parameters(), 0.1);
  auto model = poptorch::trainingModel(network, options(), optimiser);
  const poptorch::Estimate estimate = model.estimate(torch::zeros({5, 8}));
  EXPECT_FALSE(model.isCompiled());
  EXPECT_EQ(estimate.samples_per_run, 5 * 2 * 4 * 3);
  EXPECT_GT(estimate.samples_per_second, 0);
  EXPECT_TRUE(estimate.fits);
  model(torch::zeros({5 * 2 * 4 * 3, 8}));
  const poptorch::Report report = model.report();
  EXPECT_EQ(estimate.report.cycles_per_run, report.cycles_per_run);
  EXPECT_EQ(estimate.report.ipus[0].needed(), report.ipus[0].needed());
}

TEST(Estimate, NamesTheHostThatAllIpusWaitFor) {
  Network network(16);
  poptorch::begin_block(*network->last, "back", 1);
  const auto limit_with = [&](poptorch::SyncPattern pattern) {
    auto model = poptorch::inferenceModel(
        network, poptorch::Options().deviceIterations(64).syncPattern(pattern));
    const auto estimate = model.estimate(torch::zeros({64, 8}, torch::kMeta));
    EXPECT_EQ(estimate.report.work[0].host_wait_cycles > 0, pattern == poptorch::SyncPattern::Full);
    return estimate.limiting_factor;
  };
  EXPECT_EQ(limit_with(poptorch::SyncPattern::Full), "host");
  EXPECT_EQ(limit_with(poptorch::SyncPattern::SinglePipeline), "host");
}

TEST(Estimate, TakesTensorsOfDeviceMeta) {
  auto model = poptorch::inferenceModel(Wide());
  const auto estimate = model.estimate(torch::zeros({5, 8}, torch::kMeta));
  EXPECT_FALSE(estimate.fits);
  EXPECT_EQ(estimate.limiting_factor, "memory");
  expect_parts(estimate.str(), {"1 IPUs", "Limited by memory", "IPU 0 needs"});
}

}  // namespace
