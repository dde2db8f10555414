// poptorch/ops.hpp on the device and on the host.
#include <torch/nn.h>

#include <algorithm>
#include <poptorch/custom_op.hpp>
#include <poptorch/poptorch.hpp>

#include "testing.hpp"

namespace {

using poptorch::Tensors;
using torch::Tensor;

// A module that computes a function of its inputs.
struct OfImpl : torch::nn::Module {
  explicit OfImpl(std::function<Tensors(const Tensors&)> made) : function(std::move(made)) {}
  Tensors forward(const Tensor& x) { return function({x}); }
  Tensors forward(const Tensor& x, const Tensor& y) { return function({x, y}); }
  std::function<Tensors(const Tensors&)> function;
};

template <typename... Inputs>
void expect_as_on_host(const std::function<Tensors(const Tensors&)>& function,
                       const poptorch::Options& options, const Inputs&... inputs) {
  auto model = poptorch::inferenceModel(std::make_shared<OfImpl>(function), options);
  const Tensors found = model(inputs...), expected = function({inputs...});
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(torch::allclose(found[i], expected[i].to(found[i].scalar_type()))) << found[i];
  }
}

TEST(CppOps, ComputeAsOnTheHost) {
  const Tensor x = torch::randn({6, 4}), y = torch::randn({4, 2});
  const auto each = [](const Tensors& in) -> Tensors {
    const Tensor product =
        poptorch::serializedMatMul(in[0], in[1], poptorch::MatMulSerializationMode::ReducingDim, 2);
    return {
        poptorch::identity_loss(product, "sum"),    poptorch::identity_loss(product, "mean"),
        poptorch::identity_loss(product, "none"),   poptorch::nop(product),
        poptorch::recomputationCheckpoint(product), poptorch::set_available_memory(product, 0.5)};
  };
  expect_as_on_host(each, {}, x, y);
  const auto sliced = [](const Tensors& in) -> Tensors {
    const Tensor part = poptorch::dynamic_slice(in[0], 0, in[1], 3, 2);
    return {part, poptorch::dynamic_update(in[0], in[0].slice(0, 0, 3) * 2, 0, in[1], 3)};
  };
  expect_as_on_host(sliced, {}, x, torch::tensor({4}, torch::kInt));
}

TEST(CppOps, TheHostWorksInTheMiddleOfAProgram) {
  int calls = 0;
  const poptorch::CPU host(
      [&calls](const Tensors& in) -> Tensors {
        ++calls;
        return {in[0].flip({0}) * 2, in[0].argmax(1).to(torch::kInt)};
      },
      "flip");
  const auto function = [&host](const Tensors& in) -> Tensors {
    const Tensors made = host({in[0] + 1});
    return {made[0] - 1, made[1]};
  };
  const Tensor x = torch::randn({4, 3});
  expect_as_on_host(function, {}, x);
  auto model = poptorch::inferenceModel(std::make_shared<OfImpl>(function),
                                        poptorch::Options().deviceIterations(2));
  const int before = calls;
  model(x);
  model(torch::randn({4, 3}));
  EXPECT_GE(calls - before, 4);  // two micro-batches, twice, beside those on zeros
  const Tensors found = model(x),
                halves[] = {function({x.slice(0, 0, 2)}), function({x.slice(0, 2)})};
  EXPECT_TRUE(torch::allclose(found[0], torch::cat({halves[0][0], halves[1][0]})));
}

TEST(CppOps, TheHostRefusesWhatItCannotDo) {
  const poptorch::CPU inner([](const Tensors& in) { return in; }, "inner");
  const poptorch::CPU outer([&inner](const Tensors& in) { return inner(in); }, "outer");
  const auto in_outer = [&outer](const Tensors& in) { return outer(in); };
  auto model = poptorch::inferenceModel(std::make_shared<OfImpl>(in_outer));
  expect_parts(error_of([&] { model(torch::ones({2, 2})); }), {"CPU ops must not overlap"});
  const poptorch::CPU failing(
      [](const Tensors& in) -> Tensors {
        if (in[0].sum().item<float>() > 0) throw std::runtime_error("too much");
        return in;
      },
      "failing");
  const auto fails = [&failing](const Tensors& in) { return failing(in); };
  auto wrong = poptorch::inferenceModel(std::make_shared<OfImpl>(fails));
  expect_parts(error_of([&] { wrong(torch::ones({2, 2})); }), {"CPU.failing", "too much"});
}

TEST(CppOps, CarryAttributes) {
  const auto function = [](const Tensors& in) -> Tensors {
    const poptorch::Attribute outer("layer", "first"), part("part", "1");
    Tensor y = in[0].tanh();
    {
      const poptorch::Attribute inner("layer", "second");
      y = y.relu();
    }
    return {y.sin()};
  };
  auto model = poptorch::inferenceModel(std::make_shared<OfImpl>(function));
  model(torch::ones({2, 2}));
  const std::string text = model.graph("traced");
  const auto line_of = [&](const std::string& op) {
    const size_t at = text.find(" = " + op + "(");
    return text.substr(at, text.find('\n', at) - at);
  };
  for (const std::string op : {"tanh", "sin"}) {
    EXPECT_NE(line_of(op).find("first"), std::string::npos) << text;
  }
  EXPECT_NE(line_of("relu").find("second"), std::string::npos) << text;
  EXPECT_NE(line_of("relu").find("part"), std::string::npos) << text;
}

TEST(CppOps, SearchPathsAndPoints) {
  const auto decoded = [](const Tensors& in) {
    return poptorch::ctc_beam_search_decoder(in[0], in[1], 1, 20, 3);
  };
  const Tensor probs = torch::randn({6, 2, 4}).log_softmax(-1);
  expect_as_on_host(decoded, {}, probs, torch::tensor({6, 4}, torch::kInt));
  EXPECT_EQ(decoded({probs, torch::tensor({6, 4})})[2].sizes(), (std::vector<int64_t>{2, 3, 6}));
  const auto points = [](const Tensors& in) -> Tensors {
    const Tensor batch_x = torch::zeros({8}, in[0].options().dtype(torch::kInt));
    const Tensor batch_y = torch::zeros({3}, in[0].options().dtype(torch::kInt));
    return {poptorch::fps(in[0], {0, 5, 8}, 0.4), poptorch::nearest(in[0], in[1]),
            poptorch::nearest(in[0], in[1], batch_x, batch_y)};
  };
  const Tensor x = torch::randn({8, 3}), y = torch::randn({3, 3});
  expect_as_on_host(points, {}, x, y);
  const Tensors found = points({x, y});
  EXPECT_TRUE(torch::equal(found[1], torch::cdist(x, y).argmin(1).to(torch::kInt)));
  EXPECT_TRUE(torch::equal(found[1], found[2]));
  EXPECT_EQ(found[0].sizes(), (std::vector<int64_t>{4}));
}

TEST(CppOps, PrintWhenTheDeviceComesThere) {
  const auto shown = [](const Tensors& in) -> Tensors {
    return {poptorch::ipu_print_tensor(in[0], "here", true, {.digits = 2, .separator = ";"})};
  };
  auto model = poptorch::inferenceModel(std::make_shared<OfImpl>(shown));
  const Tensor x = torch::tensor({1.5, 2.5});
  testing::internal::CaptureStderr();
  EXPECT_TRUE(torch::equal(model(x)[0], x));
  expect_parts(testing::internal::GetCapturedStderr(), {"here: (1.5;2.5)\n"});
  testing::internal::CaptureStderr();
  EXPECT_TRUE(torch::equal(shown({x})[0], x));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CppOps, JoinConvolutions) {
  torch::nn::Conv1d first(2, 3, 1), second(torch::nn::Conv1dOptions(2, 3, 3).padding(1));
  const auto joined = [&](const Tensors& in) -> Tensors {
    Tensor a, b;
    poptorch::MultiConv()
        .availableMemoryProportions({0.5, 0.25})
        .partialsTypes({torch::kHalf})
        .planType(poptorch::MultiConvPlanType::Serial)
        .perConvReservedTiles(4)
        .cycleBackOff(0.3)
        .enableConvDithering({true, false})([&] { a = first(in[0]), b = second(in[0]); });
    return {a + b};
  };
  auto network = std::make_shared<OfImpl>(joined);
  network->register_module("first", first);
  network->register_module("second", second);
  auto model = poptorch::inferenceModel(network);
  const Tensor x = torch::randn({2, 2, 5});
  EXPECT_TRUE(torch::allclose(model(x)[0], joined({x})[0], 1e-4, 1e-5));
  expect_parts(model.graph("traced"), {"multi_conv=1", "plan=\"serial\"", "0.25"});
  const auto empty = [](const Tensors& in) -> Tensors {
    poptorch::MultiConv()([] {});
    return {in[0] + 1};
  };
  auto none = poptorch::inferenceModel(std::make_shared<OfImpl>(empty));
  expect_parts(error_of([&] { none(x); }), {"Unexpected end_multi_conv, is the IR malformed?"});
  expect_parts(error_of([] { poptorch::MultiConv().partialsTypes({torch::kInt}); }),
               {"Invalid partials types. Expecting torch.float or torch.half"});
}

const poptorch::custom::Register kNegate({
    .domain = "test",
    .name = "Negate",
    .attributes = {poptorch::custom::attribute("factor", 1.0f)},
    .infer = [](const poptorch::custom::Call& call) { return std::vector{call.input(0)}; },
    .compute =
        [](const poptorch::custom::Call& call) {
          const auto* x = call.in<float>(0);
          std::transform(x, x + call.input(0).elements(), call.out<float>(0),
                         [&](float one) { return -one * call.get<float>("factor"); });
        },
});

TEST(CppOps, ThoseOfLibraries) {
  const auto negated = [](const Tensors& in) {
    return poptorch::custom_op(in, "Negate", "test", 1, {{"factor", 3.0}});
  };
  expect_as_on_host(negated, {}, torch::randn({6, 4}));
  EXPECT_TRUE(torch::equal(negated({torch::ones({2})})[0], torch::full({2}, -3.0)));
  EXPECT_THROW(negated({torch::ones({2}).requires_grad_()}), std::exception);
  EXPECT_THROW(poptorch::custom_op({torch::ones({2})}, "Negat", "test", 1), std::exception);
}

TEST(CppOps, LoopsAndBranchesAreRecordedOnce) {
  int calls = 0;
  const auto looped = [&](const Tensors& in) {
    return poptorch::for_loop(5,
                              [&](const Tensors& state) -> Tensors {
                                ++calls;
                                return {state[0] * 0.5 + in[0], state[1] + 1};
                              },
                              {in[0], torch::zeros({1})});
  };
  auto model = poptorch::inferenceModel(std::make_shared<OfImpl>(looped));
  const Tensor x = torch::randn({3});
  const Tensors found = model(x);
  EXPECT_EQ(calls, 1);
  const Tensors expected = looped({x});
  EXPECT_EQ(calls, 6);
  EXPECT_TRUE(torch::allclose(found[0], expected[0]));
  EXPECT_EQ(found[1].item<float>(), 5);
  const auto branched = [](const Tensors& in) {
    return poptorch::cond(
        in[0].sum() > 0, [](const Tensors& some) -> Tensors { return {some[0] * 2}; }, {in[0]},
        [](const Tensors& some) -> Tensors { return {some[0] - 1}; }, {in[0]});
  };
  expect_as_on_host(branched, {}, torch::ones({2}));
  expect_as_on_host(branched, {}, -torch::ones({2}));
}

TEST(CppOps, OverlapTransfersWithComputation) {
  const auto doubled = [](const Tensors& in) -> Tensors {
    using poptorch::OverlapMode;
    const Tensor x =
        poptorch::set_overlap_for_input(in[0], OverlapMode::OverlapDeviceIterationLoop);
    return {poptorch::set_overlap_for_output(x * 2, OverlapMode::OverlapDeviceIterationLoop)};
  };
  auto options = poptorch::Options().deviceIterations(4).numIOTiles(32);
  options.executionStrategy(poptorch::ShardedExecution());
  expect_as_on_host(doubled, options, torch::randn({8, 2}));
  auto model = poptorch::inferenceModel(std::make_shared<OfImpl>(doubled), options);
  model(torch::randn({8, 2}));
  expect_parts(execution_of(model.graph("placed")), {"input_overlaps=[\"device_iteration_loop\"]"});
}

TEST(CppOps, KnowWhereTheyRun) {
  bool seen = false;
  const auto named = [&](const Tensors& in) -> Tensors {
    seen = poptorch::isRunningOnIpu();
    const poptorch::NameScope scope("outer");
    return {in[0] + 1};
  };
  auto model = poptorch::inferenceModel(std::make_shared<OfImpl>(named));
  model(torch::ones({2}));
  EXPECT_TRUE(seen);
  expect_parts(model.graph("traced"), {"scope(\"outer\")"});
  named({torch::ones({2})});
  EXPECT_FALSE(seen);
}

TEST(CppOps, RefuseWithTheCure) {
  const Tensor x = torch::ones({4});
  expect_parts(error_of([&] { poptorch::identity_loss(x, "max"); }), {"'max'", "sum, mean and"});
  expect_parts(error_of([&] { poptorch::set_available_memory(x, 2); }), {"from 0 to 1 but is 2"});
  expect_parts(error_of([&] { poptorch::dynamic_slice(x, 0, torch::tensor({0}), 3, 1); }),
               {"must divide", "which is 4"});
  expect_parts(error_of([&] { poptorch::dynamic_update(x, x.to(torch::kInt), 0, x, 1); }),
               {"Float [4], Int [4]"});
  const auto grows = [](const Tensors& in) { return Tensors{torch::cat({in[0], in[0]})}; };
  expect_parts(error_of([&] { poptorch::for_loop(2, grows, {x}); }),
               {"(Float [4])", "(Float [8])"});
  expect_parts(error_of([&] { poptorch::cond(x, grows, {x}, grows, {x}); }), {"has shape [4]"});
}

}  // namespace
