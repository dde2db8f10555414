// Properties of the transforms on random graphs, checked with the interpreter: gradients equal
// finite differences, rewrites keep every bit, and compile time is nearly linear.
#include "transforms/autodiff.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ir/builder.hpp"
#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "ops/all_ops.hpp"
#include "reference/interpreter.hpp"
#include "support/watch.hpp"
#include "transforms/gradients.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::Graph;
using ir::Ints;
using ir::Literal;
using ir::Module;
using ir::Type;
using ir::Value;

const Type kMatrix{DType::kF64, {3, 3}};

Literal literal_of(const std::vector<double>& values, const Type& type) {
  std::vector<std::byte> data(static_cast<size_t>(type.bytes()));
  std::memcpy(data.data(), values.data(), data.size());
  return {type, std::move(data)};
}

// Only smooth ops: finite differences are meaningless at kinks.
struct Step {
  const char* op;
  int operands;
  Attrs attrs = {};
};

const std::vector<Step>& steps() {
  static const std::vector<Step> all = {{"tanh", 1},
                                        {"sigmoid", 1},
                                        {"sin", 1},
                                        {"cos", 1},
                                        {"neg", 1},
                                        {"square", 1},
                                        {"erf", 1},
                                        {"softplus", 1},
                                        {"silu", 1},
                                        {"identity", 1},
                                        {"add", 2},
                                        {"sub", 2},
                                        {"mul", 2},
                                        {"matmul", 2},
                                        {"matmul", 2, {{"transpose_a", true}}},
                                        {"matmul", 2, {{"transpose_b", true}}},
                                        {"linear", 2},
                                        {"transpose", 1, {{"permutation", Ints{1, 0}}}},
                                        {"softmax", 1, {{"axis", int64_t{1}}}},
                                        {"log_softmax", 1, {{"axis", int64_t{1}}}},
                                        {"reshape", 1, {{"shape", Ints{3, 3}}}},
                                        {"reverse", 1, {{"axes", Ints{0}}}},
                                        {"cumsum", 1, {{"axis", int64_t{0}}}}};
  return all;
}

// Ops on [3, 3] matrices, damped so that values stay moderate; some join and cut slices.
Value* random_ops(Builder& b, std::vector<Value*> values, std::mt19937& random, int count) {
  auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int i = 0; i < count; ++i) {
    if (pick(8) == 0) {
      const auto row = static_cast<int64_t>(pick(3));
      const Attrs cut = {
          {"starts", Ints{row, 0}}, {"stops", Ints{row + 1, 3}}, {"steps", Ints{1, 1}}};
      Value* part = b.value("slice", {values[pick(values.size())]}, cut);
      Value* two = b.value("slice", {values[pick(values.size())]},
                           {{"starts", Ints{1, 0}}, {"stops", Ints{3, 3}}, {"steps", Ints{1, 1}}});
      values.push_back(b.value("concat", {part, two}, {{"axis", int64_t{0}}}));
      continue;
    }
    const Step& step = steps()[pick(steps().size())];
    std::vector<Value*> operands;
    for (int k = 0; k < step.operands; ++k) operands.push_back(values[pick(values.size())]);
    Value* y = b.value(step.op, operands, step.attrs);
    values.push_back(b.value("mul", {y, b.scalar(DType::kF64, pick(3) == 0 ? 1.0 : 0.5)}));
  }
  return b.value("add", {values[values.size() - 1], values[values.size() / 2]});
}

std::vector<double> random_numbers(std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<double> out(static_cast<size_t>(kMatrix.elements()));
  for (double& x : out) x = uniform(random);
  return out;
}

// @main: two matrices → their random function's sum.
std::unique_ptr<Module> random_module(std::mt19937& random, int count) {
  auto module = std::make_unique<Module>(ops::registry());
  Graph& main = module->add_graph("main");
  Value* x = main.add_input(kMatrix, "x");
  Value* y = main.add_input(kMatrix, "y");
  Builder b(main);
  Value* z = random_ops(b, {x, y}, random, count);
  main.add_output(b.value("sum", {z}, {{"axes", Ints{0, 1}}}));
  return module;
}

double run_scalar(const Module& module, const std::vector<std::vector<double>>& inputs) {
  reference::Interpreter interpreter(module);
  return interpreter.run_one({literal_of(inputs[0], kMatrix), literal_of(inputs[1], kMatrix)})[0]
      .number_at(0);
}

// Compares `gradients` (of x, then y) with central differences of `forward`.
void expect_gradients(const Module& forward, std::vector<std::vector<double>> inputs,
                      const std::vector<Literal>& gradients, const std::string& text) {
  constexpr double kStep = 1e-5;
  for (size_t input = 0; input < 2; ++input) {
    for (size_t i = 0; i < inputs[input].size(); ++i) {
      const double at = inputs[input][i];
      inputs[input][i] = at + kStep;
      const double high = run_scalar(forward, inputs);
      inputs[input][i] = at - kStep;
      const double low = run_scalar(forward, inputs);
      inputs[input][i] = at;
      const double expected = (high - low) / (2 * kStep);
      ASSERT_NEAR(gradients[input].number_at(static_cast<int64_t>(i)), expected,
                  1e-5 * std::max(1.0, std::fabs(expected)))
          << "input " << input << ", element " << i << " of\n"
          << text;
    }
  }
}

Literal zero_if_absent(const std::vector<Literal>& found, size_t i) {
  return i < found.size() ? found[i] : literal_of(std::vector<double>(9, 0.0), kMatrix);
}

TEST(Autodiff, EqualsFiniteDifferencesOnRandomGraphs) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto forward = random_module(random, 12);
    auto module = forward->clone();
    Graph& main = module->main();
    Builder b(main);
    Value* seed_value = b.scalar(DType::kF64, 1.0);
    auto gradients = add_gradients(main, {{main.outputs()[0], seed_value}},
                                   {main.inputs()[0].get(), main.inputs()[1].get()});
    Builder zeros(main);
    for (Value*& gradient : gradients) {
      if (!gradient) {
        gradient =
            zeros.value("broadcast_to", {zeros.scalar(DType::kF64, 0.0)}, {{"shape", Ints{3, 3}}});
      }
    }
    main.set_outputs({gradients[0], gradients[1]});
    ir::verify(*module);
    const std::vector<std::vector<double>> inputs = {random_numbers(random),
                                                     random_numbers(random)};
    reference::Interpreter interpreter(*module);
    const auto found =
        interpreter.run_one({literal_of(inputs[0], kMatrix), literal_of(inputs[1], kMatrix)});
    expect_gradients(*forward, inputs, found, ir::print(*module));
  }
}

TEST(Autodiff, MakesAGradientGraphOfWhatTheForwardGraphGives) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(1000 + seed);
    auto forward = random_module(random, 8);
    auto module = forward->clone();
    Graph& main = module->main();
    const std::vector<Value*> required = {main.inputs()[0].get(), main.inputs()[1].get()};
    const GradientGraph info = autodiff(main, {0}, required);
    ir::verify(*module);
    EXPECT_EQ(main.inputs().size(), 2u);
    ASSERT_EQ(info.inputs.size(), info.gradient->inputs().size());
    EXPECT_EQ(info.inputs[0].kind, GradientConnection::Kind::kForwardGradient);
    EXPECT_EQ(info.inputs[0].forward, main.outputs()[0]);

    const std::vector<std::vector<double>> inputs = {random_numbers(random),
                                                     random_numbers(random)};
    const std::vector<Literal> given = {literal_of(inputs[0], kMatrix),
                                        literal_of(inputs[1], kMatrix)};
    reference::Interpreter interpreter(*module);
    const auto outputs = interpreter.run_one(given);
    std::vector<Literal> handed = {Literal::scalar(DType::kF64, 1.0)};
    for (size_t i = 1; i < info.inputs.size(); ++i) {
      const Value* value = info.inputs[i].forward;
      if (!value->producer()) {
        handed.push_back(given[value->index()]);
        continue;
      }
      const auto& all = main.outputs();
      handed.push_back(
          outputs[static_cast<size_t>(std::find(all.begin(), all.end(), value) - all.begin())]);
    }
    const auto found = interpreter.run_one(handed, info.gradient->name().text());
    std::vector<Literal> gradients(2, zero_if_absent({}, 0));
    for (size_t i = 0; i < info.outputs.size(); ++i) {
      gradients[info.outputs[i].forward->index()] = found[i];
    }
    expect_gradients(*forward, inputs, gradients, ir::print(*module));
  }
}

TEST(Passes, KeepTheInterpretersBitsOnRandomGraphs) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(2000 + seed);
    auto before = random_module(random, 25);
    auto after = before->clone();
    for (PassFunction pass :
         {fold_constants, canonicalise, merge_common_subexpressions, eliminate_dead_ops}) {
      pass(*after);
      ir::verify(*after);
    }
    EXPECT_LE(after->main().op_count(), before->main().op_count());
    const std::vector<std::vector<double>> inputs = {random_numbers(random),
                                                     random_numbers(random)};
    const double expected = run_scalar(*before, inputs), found = run_scalar(*after, inputs);
    EXPECT_EQ(std::memcmp(&expected, &found, sizeof found), 0)
        << expected << " is not " << found << " after\n"
        << ir::print(*before) << "became\n"
        << ir::print(*after);
  }
}

// How often passes check for an interrupt: whenever they visit, infer or insert an op.
int64_t training_passes_looks(int layers) {
  Module module(ops::registry());
  Graph& main = module.add_graph("main");
  Value* x = main.add_input({DType::kF32, {4, 16}}, "x");
  Value* target = main.add_input({DType::kI32, {4}}, "target");
  Builder b(main);
  ir::Execution& execution = module.execution();
  execution.training = true;
  execution.optimiser.emplace();
  execution.optimiser->kind = "adamw";
  execution.optimiser->groups.resize(1);
  execution.optimiser->groups[0].values["lr"] = 0.1;
  for (int i = 0; i < layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    for (const char* part : {".weight", ".bias"}) {
      execution.optimiser->groups[0].parameters.push_back(name + part);
    }
    Value* weight = b.variable({.name = name + ".weight", .type = {DType::kF32, {16, 16}}});
    Value* bias = b.variable({.name = name + ".bias", .type = {DType::kF32, {16}}});
    x = b.value("gelu", {b.value("linear", {x, weight, bias})});
  }
  Value* loss = b.emit("softmax_cross_entropy", {x, target})->result(0);
  main.add_output(b.value("identity_loss", {loss}, {{"reduction", std::string("none")}}));
  int64_t looks = 0;
  const support::Watch watch([&] { return ++looks < 0; }, support::Watch::kEveryTime);
  for (PassFunction pass :
       {inline_calls, fold_constants, canonicalise, merge_common_subexpressions, eliminate_dead_ops,
        differentiate, inline_calls, fold_constants, canonicalise, lower_optimiser,
        merge_common_subexpressions, eliminate_dead_ops}) {
    pass(module);
  }
  ir::verify(module);
  return looks;
}

TEST(Passes, VisitThousandsOfLayersInLinearlyManySteps) {
  EXPECT_LE(training_passes_looks(3000), 11 * training_passes_looks(300));
}

}  // namespace
}  // namespace poptorch::transforms
