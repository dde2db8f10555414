// Options and strategies of the C++ API: what becomes of them, and what is refused.
#include <torch/nn.h>
#include <torch/optim.h>

#include <poptorch/poptorch.hpp>

#include "testing.hpp"

namespace {

namespace nn = torch::nn;
using poptorch::Options;
using poptorch::OutputMode;
using poptorch::Stage;

struct LayerImpl : nn::Module {
  LayerImpl() { linear = register_module("linear", nn::Linear(4, 4)); }
  poptorch::Tensors forward(const torch::Tensor& x) {
    return {poptorch::identity_loss(linear(x), "mean")};
  }
  nn::Linear linear{nullptr};
};
TORCH_MODULE(Layer);

std::string trained_with(const Options& options, int64_t rows = 2) {
  Layer layer;
  auto model = poptorch::trainingModel(layer, options, torch::optim::SGD(layer->parameters(), 0.1));
  model.compile(torch::randn({rows, 4}));
  return execution_of(model.graph("traced"));
}

TEST(CppOptions, TakeEveryOptionByItsName) {
  auto options = Options()
                     .set("recompute", false)
                     .set("check_indices", true)
                     .set("gradient_accumulation", 3)
                     .set("max_grad_norm", 0.5)
                     .set("device", "ipu21")
                     .set("memory_limit", "off");
  expect_parts(trained_with(options, 3),
               {"recompute=false", "check_indices=true", "gradient_accumulation=3",
                "max_grad_norm=0.5", "device=\"ipu21\""});
}

TEST(CppOptions, RefuseAtTheCall) {
  expect_parts(error_of([] { Options().set("gradient_acumulation", 2); }),
               {"there is no option", "Did you mean 'gradient_accumulation'?"});
  expect_parts(error_of([] { Options().set("check_indices", 2); }), {"check_indices is 2"});
  expect_parts(error_of([] { Options().set("output_mode", "Some"); }),
               {"output_mode is \"Some\"", "Final, EveryN, All, Sum"});
  expect_parts(error_of([] { Options().set("forward_stages", 2); }), {"there is no option"});
  expect_parts(error_of([] { Options().replicationFactor(0); }), {"at least 1"});
  expect_parts(error_of([] { Options().numIOTiles(33); }), {"an even number between 32 and 192"});
  expect_parts(error_of([] { Options().replicationFactor(4).inputReplicaGrouping(3); }),
               {"groups of 3 replicas", "factor 4"});
  expect_parts(error_of([] { Options().anchorTensor("a", "b", OutputMode::EveryN, 0); }),
               {"period is 0"});
  expect_parts(error_of([] { poptorch::TensorLocationSettings().set("onchip", true); }),
               {"Did you mean 'on_chip'?"});
  expect_parts(
      error_of([] { poptorch::inferenceModel(Layer(), Options().gradientAccumulation(2)); }),
      {"gradientAccumulation to 1", "deviceIterations"});
}

TEST(CppOptions, SayOutputModesByTheirNames) {
  const std::pair<OutputMode, const char*> modes[] = {{OutputMode::Final, "\"Final\""},
                                                      {OutputMode::EveryN, "\"EveryN\""},
                                                      {OutputMode::All, nullptr},  // not printed
                                                      {OutputMode::Sum, "\"Sum\""}};
  for (const auto& [mode, word] : modes) {
    const auto options = Options().outputMode(mode).anchorTensor("w", "linear.weight", mode);
    const std::string lines = trained_with(options);
    EXPECT_EQ(lines.find("output_mode") == std::string::npos, word == nullptr) << lines;
    EXPECT_EQ(lines.find("{mode=") == std::string::npos, word == nullptr) << lines;
    if (!word) continue;
    expect_parts(lines, {std::string("output_mode=") + word, std::string("{mode=") + word});
  }
  expect_parts(error_of([] { Options().memoryLimit(static_cast<poptorch::MemoryLimit>(7)); }),
               {"has no counterpart"});
}

TEST(CppOptions, DoNotChangeTheirCopies) {
  const Options before = Options().deviceIterations(2);
  Options after = before;
  after.deviceIterations(4);
  EXPECT_NE(trained_with(before, 4).find("device_iterations=2"), std::string::npos);
  EXPECT_NE(trained_with(after, 4).find("device_iterations=4"), std::string::npos);
}

TEST(CppStrategies, PlaceBlocks) {
  using poptorch::AutoStage;
  const auto text = [](const poptorch::ExecutionStrategy::Place& place) {
    return std::to_string(place.ipu) + " " + std::to_string(place.stage) + " " +
           std::to_string(place.phase);
  };
  const poptorch::PipelinedExecution same, counted(AutoStage::AutoIncrement);
  EXPECT_EQ(text(same.place("a", 3, 0, 0)), "3 3 -1");
  EXPECT_EQ(text(counted.place("a", std::nullopt, 2, 1)), "3 3 -1");
  EXPECT_EQ(text(counted.place("a", 0, 2, 1)), "0 3 -1");
  const poptorch::ShardedExecution by_hand("a", Stage("b", "c").ipu(5));
  EXPECT_EQ(text(by_hand.place("a", std::nullopt, 0, 0)), "0 0 -1");
  EXPECT_EQ(text(by_hand.place("c", 2, 0, 0)), "5 1 -1");
  EXPECT_EQ(by_hand.stage("b").ipu(), 5);
  const poptorch::Phase two(Stage("x"), Stage("y"));
  const poptorch::SerialPhasedExecution serial(poptorch::Phase("w"), two);
  EXPECT_EQ(text(serial.place("y", std::nullopt, 0, 0)), "1 2 1");
  const poptorch::ParallelPhasedExecution parallel(poptorch::Phase("w"), two);
  EXPECT_EQ(text(parallel.place("y", std::nullopt, 0, 0)), "3 2 1");
}

TEST(CppStrategies, RefuseWhatHasNoPlace) {
  expect_parts(error_of([] { poptorch::PipelinedExecution("a", Stage("b", "a")); }),
               {"a associated with more than one stage"});
  expect_parts(error_of([] { poptorch::PipelinedExecution("a").place("b", 0, 0, 0); }),
               {"unknown block 'b'", "'a'"});
  expect_parts(error_of([] { poptorch::PipelinedExecution().place("b", std::nullopt, 0, 0); }),
               {"no IPU was specified for block 'b'"});
  expect_parts(error_of([] { poptorch::Phase("a").ipus({0, 1}); }), {"expected 1 IPUs", "got 2"});
  expect_parts(error_of([] { Stage("a").ipu(-1); }), {"not -1", "'a'"});
}

}  // namespace
