// begin_block on modules: where blocks begin, when annotations end, and what is refused.
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <poptorch/poptorch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "testing.hpp"

namespace {

namespace nn = torch::nn;
using poptorch::begin_block;
using poptorch::remove_blocks;

// Three layers in a row; the module `tail` holds the last two.
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
  expect_parts(error_of([&] { blocks_of(same); }),
               {"'back'", "blocks_test.cpp:", "other modules have all its parameters",
                "Use a poptorch::Block"});
}

TEST(BeginBlock, BeginsWithViewsOfParameters) {
  struct SplitImpl : nn::Module {
    SplitImpl() {
      first = register_module("first", nn::Linear(4, 4));
      last = register_module("last", nn::Linear(4, 8));
    }
    torch::Tensor forward(const torch::Tensor& x) {
      const auto halves = torch::relu(first(x)), weights = last->weight.narrow(0, 2, 4);
      return halves.matmul(torch::tanh(weights));
    }
    nn::Linear first{nullptr}, last{nullptr};
  };
  auto split = std::make_shared<SplitImpl>();
  begin_block(*split->last, "back", 1);
  auto model = poptorch::inferenceModel(
      split, poptorch::Options().executionStrategy(poptorch::ShardedExecution()));
  model(torch::randn({2, 4}));
  const std::string text = model.graph("traced");
  const size_t at = text.find(" = slice(%last.weight");
  ASSERT_NE(at, std::string::npos) << text;
  expect_parts(text.substr(at, text.find('\n', at) - at), {"block=\"back\"", "scope(\"last\")"});
}

TEST(BeginBlock, RefusesWithBlockLineAndCure) {
  Network network;
  const std::string here = "blocks_test.cpp:";
  begin_block(*network->first, "front", 0);
  expect_parts(error_of([&] { begin_block(*network->first, "second", 1); }),
               {"module has already been assigned to a block", "'front'", "'second'", here,
                "Call poptorch::remove_blocks"});
  EXPECT_EQ(blocks_of(network), "front front front ");
  expect_parts(error_of([&] { begin_block(*network->tail, "back", -1); }),
               {"'back'", "ipu_id -1", here, "Pass an IPU's number"});
  nn::ReLU relu;
  expect_parts(error_of([&] { begin_block(*relu, "act", 1); }),
               {"'act'", "ReLU", here, "has no parameters", "Use a poptorch::Block"});
  Network nowhere;
  begin_block(*nowhere->first, "front");
  expect_parts(error_of([&] { blocks_of(nowhere); }),
               {"no IPU was specified for block 'front'", here, "AutoIncrement"});
  nn::LinearImpl unowned(4, 4);
  expect_parts(error_of([&] { begin_block(unowned, "loose", 1); }),
               {"'loose'", here, "no shared_ptr owns", "Annotate modules"});
}

TEST(BeginBlock, RefusesUnusedModules) {
  Network network;
  begin_block(*network->spare, "idle", 1);
  expect_parts(error_of([&] { blocks_of(network); }),
               {"'idle'", "blocks_test.cpp:", "layer 'spare', which the model does not use",
                "remove the begin_block"});
  begin_block(*network->first, "front", 0);
  expect_parts(error_of([&] { blocks_of(network); }), {"layer 'spare'"});
  begin_block(*network->tail, "back", 1);
  EXPECT_NO_THROW(blocks_of(network));  // another program may use it
}

TEST(BeginBlock, RefusesAnotherOrderThanThatOfRunning) {
  Network network;
  begin_block(*network->tail, "back", 1);
  begin_block(*network->first, "front", 0);
  expect_parts(error_of([&] { blocks_of(network); }),
               {"'back'", "blocks_test.cpp:", "begins after", "'front'",
                "in the order in which the layers run"});
}

// Three layers, of which `form` says how they are in blocks.
struct FormImpl : nn::Module {
  using Layers = std::vector<std::function<torch::Tensor(torch::Tensor)>>;
  explicit FormImpl(std::function<torch::Tensor(torch::Tensor, const Layers&)> made)
      : form(std::move(made)) {
    for (int i = 0; i < 3; ++i) list->push_back(nn::Linear(4, 4));
    register_module("list", list);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    Layers layers;
    for (int i = 0; i < 3; ++i) {
      layers.emplace_back(
          [this, i](const torch::Tensor& in) { return list[i]->as<nn::Linear>()->forward(in); });
    }
    return form(x, layers);
  }
  std::function<torch::Tensor(torch::Tensor, const Layers&)> form;
  nn::ModuleList list;
};
TORCH_MODULE(Form);

using Layers = FormImpl::Layers;

TEST(Blocks, HaveIdsOfTheirOwn) {
  const auto scoped = [](torch::Tensor x, const Layers& layers) {
    poptorch::Block::useAutoId();
    for (int i = 0; i < 3; ++i) {
      const poptorch::Block block("", i % 2);
      x = layers[static_cast<size_t>(i)](x);
    }
    return x;
  };
  EXPECT_EQ(blocks_of(Form(scoped)), "0 1 2 ");
}

TEST(Blocks, LastUntilTheNextBegins) {
  const auto started = [](torch::Tensor x, const Layers& layers) {
    x = layers[0](x);
    poptorch::Block::start("back", 1);
    return layers[2](layers[1](x));
  };
  EXPECT_EQ(blocks_of(Form(started)), "- back back ");
}

TEST(Blocks, AreOfFunctions) {
  const auto called = [](torch::Tensor x, const Layers& layers) {
    const auto first = poptorch::BlockFunction(layers[0], "front", 0);
    const auto second = poptorch::BeginBlockFunction(layers[1], "back", 1);
    return layers[2](second(first(x)));
  };
  EXPECT_EQ(blocks_of(Form(called)), "front back back ");
}

TEST(Blocks, AreOnOneIpu) {
  const auto moved = [](torch::Tensor x, const Layers& layers) {
    poptorch::Block::start("back", 1);
    x = layers[0](x);
    poptorch::Block::start("back", 0);
    return layers[1](x);
  };
  expect_parts(error_of([&] { blocks_of(Form(moved)); }),
               {"block 'back' began on IPU 1", "blocks_test.cpp:", "again with ipu_id 0"});
}

TEST(Blocks, AreWhereTheStrategySays) {
  const auto named = [](torch::Tensor x, const Layers& layers) {
    for (const char* id : {"a", "b", "c"}) {
      const poptorch::Block block(id);
      x = layers[static_cast<size_t>(*id - 'a')](x);
    }
    return x;
  };
  const auto ipus_of = [&](const poptorch::ExecutionStrategy& strategy) {
    auto model = poptorch::inferenceModel(
        Form(named), poptorch::Options().executionStrategy(strategy).autoRoundNumIPUs());
    model(torch::randn({2, 4}));
    const auto report = model.report();
    std::string found;
    for (const auto& stage : report.stages) {
      for (const auto& block : stage.blocks) found += block + std::to_string(stage.ipu) + " ";
    }
    return found;
  };
  using poptorch::Phase;
  using poptorch::Stage;
  EXPECT_EQ(ipus_of(poptorch::ShardedExecution(poptorch::AutoStage::AutoIncrement)), "a0 b1 c2 ");
  EXPECT_EQ(ipus_of(poptorch::PipelinedExecution(Stage("a", "b").ipu(1), "c")), "a1 b1 c1 ");
  const poptorch::ParallelPhasedExecution parallel(Phase("a"), Phase("b"), Phase("c"));
  EXPECT_EQ(ipus_of(parallel), "a0 b1 c0 ");
  expect_parts(error_of([&] { ipus_of(poptorch::ShardedExecution("a", "b")); }),
               {"unknown block 'c'", "'a', 'b'", "blocks_test.cpp:"});
}

}  // namespace
