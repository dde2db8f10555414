// begin_block on modules: where blocks begin, when annotations end, and what is refused.
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <poptorch/poptorch.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace nn = torch::nn;
using poptorch::begin_block;
using poptorch::remove_blocks;

// Three layers in a row; `tail` is two of them in a module of their own.
struct NetworkImpl : nn::Module {
  NetworkImpl() {
    first = register_module("first", nn::Linear(4, 4));
    tail = register_module("tail", nn::Sequential(nn::Linear(4, 4), nn::Linear(4, 4)));
    spare = register_module("spare", nn::Linear(4, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) { return tail->forward(torch::relu(first(x))); }

  nn::Linear first{nullptr}, spare{nullptr};
  nn::Sequential tail{nullptr};
};
TORCH_MODULE(Network);

// The block of each linear layer, in the order in which they run.
template <typename Module>
std::string blocks_of(Module network) {
  auto options = poptorch::Options();
  options.executionStrategy(poptorch::ShardedExecution());
  auto model = poptorch::inferenceModel(network, options);
  const torch::Tensor x = torch::randn({8, 4});
  EXPECT_TRUE(torch::allclose(model(x)[0], network->forward(x), 1e-5, 1e-6));
  const std::string text = model.graph("placed");
  std::string found;
  for (size_t at = 0; (at = text.find(" linear(", at)) != std::string::npos; ++at) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    const size_t name = line.find("block=\"");
    const bool is_named = name != std::string::npos;
    found += (is_named ? line.substr(name + 7, line.find('"', name + 7) - name - 7) : "-") + " ";
  }
  return found;
}

template <typename Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(BeginBlock, LastsUntilTheNextBegins) {
  Network network;
  begin_block(*network->tail, "back", 1);
  EXPECT_EQ(blocks_of(network), "- back back ");
}

TEST(BeginBlock, EndsWhereAModuleWithinBeginsOne) {
  Network network;
  begin_block(*network->first, "front", 0);
  begin_block(*network->tail, "middle", 1);
  begin_block(*network->tail[1], "back", 0);
  EXPECT_EQ(blocks_of(network), "front middle back ");
}

TEST(BeginBlock, EndsWithRemoveBlocks) {
  Network network;
  begin_block(*network->first, "front", 1);
  begin_block(*network->tail[1], "back", 0);
  remove_blocks(*network->tail);
  EXPECT_EQ(blocks_of(network), "front front front ");
  remove_blocks(*network);
  EXPECT_EQ(blocks_of(network), "- - - ");
  begin_block(*network->first, "again", 0);
  EXPECT_EQ(blocks_of(network), "again again again ");
}

TEST(BeginBlock, IsNotInheritedByClones) {
  nn::Linear layer(4, 4);
  begin_block(*layer, "front", 0);
  EXPECT_EQ(blocks_of(std::dynamic_pointer_cast<nn::LinearImpl>(layer->clone())), "- ");
  EXPECT_EQ(blocks_of(layer), "front ");
}

// A new module where an annotated one was.
TEST(BeginBlock, EndsWithTheModule) {
  struct Holder : nn::Module {
    explicit Holder(std::shared_ptr<nn::LinearImpl> made) : layer(std::move(made)) {
      register_module("layer", layer);
    }
    torch::Tensor forward(const torch::Tensor& x) { return layer->forward(x); }
    std::shared_ptr<nn::LinearImpl> layer;
  };
  alignas(nn::LinearImpl) std::array<std::byte, sizeof(nn::LinearImpl)> place;
  const auto made = [&] {
    auto* layer = new (place.data()) nn::LinearImpl(4, 4);
    return std::shared_ptr<nn::LinearImpl>(layer, [](nn::LinearImpl* it) { it->~LinearImpl(); });
  };
  begin_block(*made(), "old", 1);
  const auto holder = std::make_shared<Holder>(made());
  EXPECT_EQ(blocks_of(holder), "- ");
  begin_block(*holder->layer, "new", 1);
  EXPECT_EQ(blocks_of(holder), "new ");
}

// A layer, and another one with the same weight.
struct TiedImpl : nn::Module {
  struct Decoder : nn::Module {
    Decoder(const torch::Tensor& shared, bool with_bias)
        : weight(register_parameter("weight", shared)) {
      if (with_bias) bias = register_parameter("bias", torch::ones(4));
    }
    torch::Tensor weight, bias;
  };
  explicit TiedImpl(bool with_bias) {
    first = register_module("first", nn::Linear(nn::LinearOptions(4, 4).bias(false)));
    decoder = register_module("decoder", std::make_shared<Decoder>(first->weight, with_bias));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return nn::functional::linear(torch::relu(first(x)), decoder->weight, decoder->bias);
  }
  nn::Linear first{nullptr};
  std::shared_ptr<Decoder> decoder;
};
TORCH_MODULE(Tied);

TEST(BeginBlock, BeginsAtParametersThatNoOtherModuleHas) {
  Tied tied(true), same(false);
  begin_block(*tied->decoder, "back", 0);
  EXPECT_EQ(blocks_of(tied), "- back ");
  begin_block(*same->decoder, "back", 0);
  expect_parts(refusal_of([&] { blocks_of(same); }),
               {"'back'", "blocks_test.cpp:", "other modules have all its parameters",
                "Use a poptorch::Block"});
}

TEST(BeginBlock, RefusesWithBlockLineAndCure) {
  Network network;
  const std::string here = "blocks_test.cpp:";
  begin_block(*network->first, "front", 0);
  expect_parts(refusal_of([&] { begin_block(*network->first, "second", 1); }),
               {"module has already been assigned to a block", "'front'", "'second'", here,
                "Call poptorch::remove_blocks"});
  EXPECT_EQ(blocks_of(network), "front front front ");
  expect_parts(refusal_of([&] { begin_block(*network->tail, "back", -1); }),
               {"'back'", "ipu_id -1", here, "Pass an IPU's number"});
  nn::ReLU relu;
  expect_parts(refusal_of([&] { begin_block(*relu, "act", 1); }),
               {"'act'", "ReLU", here, "has no parameters", "Use a poptorch::Block"});
  nn::LinearImpl unowned(4, 4);
  expect_parts(refusal_of([&] { begin_block(unowned, "loose", 1); }),
               {"'loose'", here, "no shared_ptr owns", "Annotate modules"});
}

TEST(BeginBlock, RefusesUnusedModules) {
  Network network;
  begin_block(*network->spare, "idle", 1);
  expect_parts(refusal_of([&] { blocks_of(network); }),
               {"'idle'", "blocks_test.cpp:", "layer 'spare', which the model does not use",
                "remove the begin_block"});
}

TEST(BeginBlock, RefusesAnotherOrderThanThatOfRunning) {
  Network network;
  begin_block(*network->tail, "back", 1);
  begin_block(*network->first, "front", 0);
  expect_parts(refusal_of([&] { blocks_of(network); }),
               {"'back'", "blocks_test.cpp:", "begins after", "'front'",
                "in the order in which the layers run"});
}

}  // namespace
