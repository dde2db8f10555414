// The C++ API against LibTorch's own training loop: values, weights, buffers, reports and refusals.
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <chrono>
#include <poptorch/poptorch.hpp>
#include <string>
#include <thread>

#include "testing.hpp"

namespace {

namespace nn = torch::nn;
using poptorch::Options;
using poptorch::OutputMode;
using torch::Tensor;

constexpr int64_t kRows = 8;

struct ClassifierImpl : nn::Module {
  ClassifierImpl() {
    first = register_module("first", nn::Linear(6, 16));
    norm = register_module("norm", nn::BatchNorm1d(16));
    last = register_module("last", nn::Linear(16, 4));
  }
  Tensor forward(const Tensor& x) { return last(torch::gelu(norm(first(x)))); }
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& labels) {
    const Tensor scores = forward(x);
    return {scores, nn::functional::cross_entropy(scores, labels)};
  }
  nn::Linear first{nullptr}, last{nullptr};
  nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Classifier);

// Two modules with the same weights: one is wrapped, LibTorch trains the other.
struct Twins {
  Twins() {
    torch::manual_seed(3);
    torch::NoGradGuard no_grad;
    auto from = theirs->named_parameters();
    for (auto& item : ours->named_parameters()) item.value().copy_(from[item.key()]);
  }
  void expect_equal(double tolerance = 1e-5) const {
    const auto compare = [&](const auto& found, const auto& expected) {
      for (const auto& item : expected) {
        EXPECT_TRUE(torch::allclose(found[item.key()].to(item.value().dtype()), item.value(),
                                    tolerance, tolerance))
            << item.key();
      }
    };
    compare(ours->named_parameters(), theirs->named_parameters());
    compare(ours->named_buffers(), theirs->named_buffers());
  }
  Classifier ours, theirs;
};

struct Batch {
  explicit Batch(int64_t rows = kRows)
      : x(torch::randn({rows, 6})), labels(torch::randint(0, 4, {rows})) {}
  Tensor x, labels;
};

template <typename Optimizer, typename OptimizerOptions>
void expect_same_training(const OptimizerOptions& options) {
  Twins twins;
  Optimizer ours(twins.ours->parameters(), options), theirs(twins.theirs->parameters(), options);
  auto model = poptorch::trainingModel(twins.ours, Options(), ours);
  for (int step = 0; step < 20; ++step) {
    const Batch batch;
    const std::vector<Tensor> found = model(batch.x, batch.labels);
    theirs.zero_grad();
    const auto [scores, loss] = twins.theirs->forward(batch.x, batch.labels);
    loss.backward();
    theirs.step();
    ASSERT_EQ(found.size(), 2u);
    EXPECT_TRUE(torch::allclose(found[0], scores, 1e-4, 1e-5)) << "step " << step;
    EXPECT_NEAR(found[1].item<float>(), loss.item<float>(), 1e-5) << "step " << step;
  }
  model.copyWeightsToHost();
  twins.expect_equal();
}

TEST(CppApi, TrainsAsSgd) {
  expect_same_training<torch::optim::SGD>(torch::optim::SGDOptions(0.05));
  expect_same_training<torch::optim::SGD>(
      torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01).nesterov(true));
}

TEST(CppApi, TrainsAsAdam) {
  expect_same_training<torch::optim::Adam>(torch::optim::AdamOptions(1e-3).eps(1e-3));
}

TEST(CppApi, TrainsAsAdamW) {
  expect_same_training<torch::optim::AdamW>(
      torch::optim::AdamWOptions(1e-3).eps(1e-3).weight_decay(0.05));
}

TEST(CppApi, AccumulatesAndIteratesInOneCall) {
  Twins twins;
  const torch::optim::SGDOptions options(0.1);
  torch::optim::SGD ours(twins.ours->parameters(), options);
  torch::optim::SGD theirs(twins.theirs->parameters(), options);
  auto model = poptorch::trainingModel(
      twins.ours, Options().deviceIterations(2).gradientAccumulation(3).outputMode(OutputMode::All),
      ours);
  const Batch batch(6 * kRows);
  const auto found = model(batch.x, batch.labels);
  EXPECT_EQ(found[0].size(0), 6 * kRows);
  ASSERT_EQ(found[1].numel(), 6);
  for (int64_t i = 0; i < 6; ++i) {
    if (i % 3 == 0) theirs.zero_grad();
    const Tensor rows = batch.x.narrow(0, i * kRows, kRows);
    const auto [scores, loss] =
        twins.theirs->forward(rows, batch.labels.narrow(0, i * kRows, kRows));
    (loss / 3).backward();
    if (i % 3 == 2) theirs.step();
    EXPECT_NEAR(found[1][i].item<float>(), loss.item<float>(), 1e-5);
  }
  model.copyWeightsToHost();
  twins.expect_equal();
}

TEST(CppApi, TakesAnotherLearningRate) {
  Twins twins;
  torch::optim::SGD ours(twins.ours->parameters(), torch::optim::SGDOptions(0.1));
  auto model = poptorch::trainingModel(twins.ours, Options(), ours);
  const Batch batch;
  model(batch.x, batch.labels);
  model.copyWeightsToHost();
  const Tensor before = twins.ours->last->weight.detach().clone();
  ours.param_groups()[0].options().set_lr(0);
  model.setOptimizer(ours);
  model(batch.x, batch.labels);
  model.copyWeightsToHost();
  EXPECT_TRUE(torch::equal(twins.ours->last->weight, before));
}

TEST(CppApi, InfersInEvaluationMode) {
  Twins twins;
  twins.ours->eval();
  twins.theirs->eval();
  auto model = poptorch::inferenceModel(twins.ours);
  EXPECT_FALSE(model.isCompiled());
  const Batch batch;
  EXPECT_TRUE(torch::allclose(model(batch.x)[0], twins.theirs->forward(batch.x), 1e-5, 1e-6));
  EXPECT_TRUE(model.isCompiled());
  {
    torch::NoGradGuard no_grad;
    for (auto* module : {&twins.ours, &twins.theirs}) (*module)->last->bias.fill_(2);
  }
  model.copyWeightsToDevice();
  EXPECT_TRUE(torch::allclose(model(batch.x)[0], twins.theirs->forward(batch.x), 1e-5, 1e-6));
}

TEST(CppApi, ShowsFormsAndWhatTheDeviceHolds) {
  Twins twins;
  auto model = poptorch::inferenceModel(twins.ours);
  model(Batch().x);
  expect_parts(model.graph("traced"), {"first.weight"});
  expect_parts(model.graph("program"), {"first.weight"});
  const poptorch::Report report = model.report();
  ASSERT_EQ(report.ipus.size(), 1u);
  const int64_t floats = 6 * 16 + 16 + 16 * 4 + 4 + 4 * 16;
  EXPECT_GE(report.ipus[0].state_bytes, 4 * floats);
  EXPECT_GT(report.cycles_per_run, 0);
  EXPECT_TRUE(report.generic_ops.empty());
}

TEST(CppApi, DrawsTheSchedule) {
  Twins twins;
  poptorch::begin_block(*twins.ours->last, "back", 1);
  auto model = poptorch::inferenceModel(twins.ours, Options().deviceIterations(3));
  model.compile(Batch(3 * kRows).x);
  const poptorch::Schedule schedule = model.schedule();
  EXPECT_EQ(schedule.steps, 4);
  EXPECT_EQ(schedule.cells.size(), 6u);
  EXPECT_EQ(schedule.blocks[1], std::vector<std::string>{"back"});
  testing::internal::CaptureStdout();
  model.printSchedule();
  expect_parts(testing::internal::GetCapturedStdout(), {"IPU 0  0 1 2 .", "IPU 1  . 0 1 2"});
}

TEST(CppApi, ReturnsAnchoredTensors) {
  Twins twins;
  torch::optim::SGD sgd(twins.ours->parameters(), torch::optim::SGDOptions(0.1));
  auto options = Options();
  options.anchorTensor("bias", "Gradient___last.bias");
  options.anchorTensor("layer", "last.*", OutputMode::Final);
  auto model = poptorch::trainingModel(twins.ours, options, sgd);
  const Batch batch;
  const Tensor before = twins.ours->last->bias.detach().clone();
  EXPECT_EQ(model(batch.x, batch.labels).size(), 2u);
  const auto gradient = model.getAnchoredTensor("bias");
  ASSERT_EQ(gradient.size(), 1u);
  twins.theirs->zero_grad();
  std::get<1>(twins.theirs->forward(batch.x, batch.labels)).backward();
  EXPECT_TRUE(
      torch::allclose(gradient.begin()->second, twins.theirs->last->bias.grad(), 1e-4, 1e-6));
  const auto layer = model.getAnchoredTensor("layer");
  EXPECT_TRUE(torch::allclose(layer.at("last.bias"), before - 0.1 * gradient.begin()->second));
  expect_parts(error_of([&] { model.getAnchoredTensor("other"); }), {"other", "bias, layer"});
  options.anchorTensor("nothing", "lastt.weight");
  auto refused = poptorch::trainingModel(twins.ours, options, sgd);
  expect_parts(error_of([&] { refused(batch.x, batch.labels); }), {"no tensor lastt.weight"});
}

TEST(CppApi, CopiesNamedBuffersAndTheRandomState) {
  Twins twins;
  twins.ours->eval();
  auto model = poptorch::inferenceModel(
      twins.ours, Options().updatableNamedBuffers({"norm.running_mean"}).randomSeed(9));
  const Batch batch;
  const Tensor before = model(batch.x)[0];
  {
    torch::NoGradGuard no_grad;
    twins.ours->norm->running_mean.add_(1);
    twins.ours->last->bias.add_(1);
  }
  model.copyNamedBuffersToDevice();
  EXPECT_TRUE(torch::equal(model.readState("norm.running_mean"), twins.ours->norm->running_mean));
  EXPECT_FALSE(torch::equal(model.readState("last.bias"), twins.ours->last->bias));
  EXPECT_EQ(model.rngState().first, 9u);
  model.setRngState({4, 2});
  EXPECT_EQ(model.rngState(), (std::pair<uint64_t, uint64_t>(4, 2)));
}

TEST(CppApi, RefusesReplicasThatDoNotFit) {
  Twins twins;
  torch::optim::SGD sgd(twins.ours->parameters(), torch::optim::SGDOptions(0.1));
  auto options = Options().replicationFactor(4);
  const Batch batch(4 * kRows);
  auto refused = poptorch::trainingModel(twins.ours, options, sgd);
  expect_parts(error_of([&] { refused(batch.x, batch.labels); }),
               {"broadcasting buffers", "The model writes norm."});
  auto model = poptorch::trainingModel(twins.ours, options.broadcastBuffers(false), sgd);
  using poptorch::CommGroupType;
  const auto one = poptorch::VariableRetrievalMode::OnePerGroup;
  model.replicaGrouping(twins.ours->last->bias, CommGroupType::Consecutive, 3, one);
  expect_parts(error_of([&] { model(batch.x, batch.labels); }),
               {"last.bias", "groups of 3 replicas", "factor 4"});
  model.replicaGrouping(twins.ours->last->bias, CommGroupType::Orthogonal, 2, one);
  expect_parts(error_of([&] { model(batch.x, batch.labels); }),
               {"shape [4]", "first dimension must be 2: a value for each group"});
  model.replicaGrouping(twins.ours->last->bias, CommGroupType::All, 1, one);
  EXPECT_EQ(model(batch.x, batch.labels)[1].numel(), 4);
  expect_parts(
      error_of([&] { model.replicaGrouping(twins.ours->last->bias, CommGroupType::All, 1, one); }),
      {"after the model was compiled"});
}

TEST(CppApi, RefusesWithTheCure) {
  Twins twins;
  torch::optim::SGD sgd(twins.ours->parameters(), torch::optim::SGDOptions(0.1));
  torch::optim::Adagrad adagrad(twins.ours->parameters());
  expect_parts(error_of([&] { poptorch::trainingModel(twins.ours, Options(), adagrad); }),
               {"Use SGD, Adam, AdamW, RMSprop or LAMB"});
  expect_parts(
      error_of([&] { poptorch::inferenceModel(twins.ours, Options().deviceIterations(0)); }),
      {"device_iterations is 0. It must be at least 1"});

  auto training = poptorch::trainingModel(twins.ours, Options().deviceIterations(3), sgd);
  expect_parts(error_of([&] { training.copyWeightsToHost(); }), {"not compiled"});
  const Batch batch;
  expect_parts(error_of([&] { training(batch.x, batch.labels); }),
               {"In the input 0, the batch dimension (", "= 3."});

  auto inference = poptorch::inferenceModel(twins.ours);
  expect_parts(error_of([&] { inference.setOptimizer(sgd); }), {"inference"});
  inference(batch.x);
  expect_parts(error_of([&] { inference(batch.x.narrow(0, 0, 4)); }),
               {"expected [8, 6] but got [4, 6]"});
  expect_parts(error_of([&] { inference.graph("nonsense"); }), {"nonsense"});
}

struct SlowImpl : nn::Module {
  SlowImpl() { linear = register_module("linear", nn::Linear(4, 4)); }
  Tensor forward(const Tensor& x) { return linear(x); }
  nn::Linear linear{nullptr};
};
TORCH_MODULE(Slow);

TEST(CppApi, InterruptsACallFromAnotherThread) {
  constexpr int64_t kSteps = 6000000;
  Slow slow;
  auto model = poptorch::inferenceModel(
      slow, Options().deviceIterations(kSteps).outputMode(OutputMode::Final));
  const Tensor x = torch::ones({kSteps, 4});
  const Tensor expected = model(x)[0];  // compiles
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    model.interrupt();
  });
  EXPECT_THROW(model(x), poptorch::Interrupted);
  other.join();
  EXPECT_TRUE(torch::equal(model(x)[0], expected));
}

}  // namespace
