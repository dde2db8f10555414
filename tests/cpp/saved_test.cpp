// Files of executables from and for LibTorch programs.
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <cstdio>
#include <poptorch/poptorch.hpp>
#include <string>

#include "testing.hpp"

namespace {

struct LineImpl : torch::nn::Module {
  LineImpl() { layer = register_module("layer", torch::nn::Linear(4, 4)); }
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x,
                                                   const torch::Tensor& target) {
    const torch::Tensor y = layer(x);
    return {y, torch::mse_loss(y, target)};
  }
  torch::nn::Linear layer{nullptr};
};
TORCH_MODULE(Line);

TEST(SavedModel, GoesOnWithTheBitsOfTheModelThatWasSaved) {
  const std::string path = testing::TempDir() + "line.poptorch";
  Line line;
  auto training = poptorch::trainingModel(
      line, poptorch::Options(),
      torch::optim::SGD(line->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)));
  const auto x = torch::randn({8, 4}), target = torch::randn({8, 4});
  training(x, target);
  training.save(path);
  poptorch::SavedModel saved(path);
  std::remove(path.c_str());  // what is loaded needs it no more
  for (int step = 0; step < 3; ++step) {
    const auto expected = training(x, target), found = saved(x, target);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_TRUE(torch::equal(found[1], expected[1]));
  }
  const std::string slot = "optimiser.momentum_buffer.layer.weight";
  EXPECT_TRUE(torch::equal(saved.readState(slot), training.readState(slot)));
  saved.writeState("layer.bias", torch::zeros({4}));
  EXPECT_TRUE(torch::equal(saved.readState("layer.bias"), torch::zeros({4})));
}

TEST(SavedModel, SaysWhatIsWrongWithAFile) {
  try {
    poptorch::SavedModel("/nowhere");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("Invalid file /nowhere: "), std::string::npos);
  }
}

}  // namespace
