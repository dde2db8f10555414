// Compilations that take the program and kernels of an earlier one: only for equal modules, and
// with the text that a whole compilation makes.
#include "session/kept_programs.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "emulator/bind/bound_program.hpp"
#include "ir/builder.hpp"
#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "sample.hpp"
#include "session/session.hpp"

namespace poptorch::session {
namespace {

constexpr const char* kModel = R"(
state "w" : f32[4,4] {initial=dense<f32[4,4]: 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0>}
graph @body(%v: f32[2,4]) -> (f32[2,4]) {
  %t = tanh(%v) : f32[2,4]
  return %t
}
graph @main(%x: f32[2,4]) -> (f32[2,4], f32[]) {
  %w = variable() {name="w"} : f32[4,4]
  %y = matmul(%x, %w) : f32[2,4]
  %z = gelu(%y) : f32[2,4]
  %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
  %many = repeat(%z) {count=3, graph=@body} : f32[2,4]
  %shifted = add(%many, %zero) : f32[2,4]
  %loss = mean(%shifted) {axes=[0, 1]} : f32[]
  return %shifted, %loss
}
)";

constexpr int kMoreThanKept = 9;  // compilations

std::unique_ptr<Executable> compiled(const std::string& text, const ir::Execution& execution) {
  auto module = ir::parse(text, ops::registry());
  module->execution() = execution;
  return compile(std::move(module), {.threads = 1});
}

bool is_reused(const Executable& executable) { return executable.compile_record().cached; }

// Compiles other models, so that none of the model's compilations is kept.
void forget() {
  for (int size = 1; size <= kMoreThanKept; ++size) {
    const std::string type = "f32[" + std::to_string(size) + "]";
    compiled("graph @main(%x: " + type + ") -> (" + type + ") {\n  %y = tanh(%x) : " + type +
                 "\n  return %y\n}\n",
             {});
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  return text.replace(text.find(what), what.size(), with);
}

std::vector<std::vector<float>> run(Executable& executable) {
  std::vector<float> input(static_cast<size_t>(executable.input_types()[0].elements()));
  for (size_t i = 0; i < input.size(); ++i) input[i] = 0.01F * static_cast<float>(i % 37);
  std::vector<std::vector<float>> results;
  std::vector<std::byte*> targets;
  for (const ir::Type& type : executable.output_types()) {
    results.emplace_back(static_cast<size_t>(type.elements()));
  }
  for (auto& result : results) targets.push_back(reinterpret_cast<std::byte*>(result.data()));
  executable.run({reinterpret_cast<const std::byte*>(input.data())}, targets);
  return results;
}

std::vector<ir::Execution> executions() {
  std::vector<ir::Execution> all;
  for (const int64_t batches : {1, 3}) {
    for (const ir::OutputMode mode :
         {ir::OutputMode::kAll, ir::OutputMode::kFinal, ir::OutputMode::kSum}) {
      for (const char* strategy : {"pipelined", "sharded"}) {
        ir::Execution execution;
        execution.gradient_accumulation = batches;
        execution.output_mode = mode;
        execution.strategy = strategy;
        all.push_back(execution);
      }
    }
  }
  return all;
}

TEST(KeptPrograms, ChangedIterationsGiveTheTextOfAWholeCompilation) {
  Sample sample(4);
  for (ir::Execution execution : executions()) {
    for (const auto& [from, to] : {std::pair{1, 4}, {4, 6}, {4, 1}, {2, 2}}) {
      if (!sample.takes()) continue;
      forget();
      execution.device_iterations = to;
      const auto whole = compiled(kModel, execution);
      EXPECT_FALSE(is_reused(*whole));
      forget();
      execution.device_iterations = from;
      EXPECT_FALSE(is_reused(*compiled(kModel, execution)));
      execution.device_iterations = to;
      const auto again = compiled(kModel, execution);
      EXPECT_TRUE(is_reused(*again));
      for (const char* form : {"traced", "normal", "placed", "program", "bound"}) {
        EXPECT_EQ(again->text(form), whole->text(form)) << from << " to " << to << ", " << form;
      }
      EXPECT_EQ(run(*again), run(*whole));
      EXPECT_EQ(run(*again), run(*whole));
    }
  }
}

TEST(KeptPrograms, ModulesThatDifferAreCompiled) {
  const std::string text = kModel;
  const std::string others[] = {
      replaced(text, "gelu(", "relu("),
      replaced(text, "f32[]: 0.0>", "f32[]: -0.0>"),
      replaced(text, "count=3", "count=4"),
      replaced(text, "%z = gelu", "#40 %z = gelu"),
      replaced(text, "dense<f32[4,4]: 1.0", "dense<f32[4,4]: 1.5"),
      replaced(text, "return %shifted, %loss", "return %many, %loss"),
      replaced(text, "gelu(%y) : f32[2,4]", "gelu(%y) : f32[2,4] scope(\"head\")"),
      replaced(text, "gelu(%y) : f32[2,4]", "gelu(%y) : f32[2,4] loc(\"model.py\":4)"),
  };
  for (const std::string& other : others) {
    forget();
    compiled(text, {});
    EXPECT_FALSE(is_reused(*compiled(other, {}))) << other;
    EXPECT_TRUE(is_reused(*compiled(text, {})));
  }
  ir::Execution execution;
  execution.random_seed = 7;
  EXPECT_FALSE(is_reused(*compiled(text, execution)));
}

std::string with_rows(int rows) {
  std::string text = kModel;
  const std::string type = "f32[" + std::to_string(rows) + ",4]";
  for (size_t at = 0; (at = text.find("f32[2,4]", at)) != std::string::npos; at += type.size()) {
    text.replace(at, 8, type);
  }
  return text;
}

TEST(KeptPrograms, ShapesThatReturnAreNotCompiledAgain) {
  forget();
  const int most = kMoreThanKept - 1;
  for (int rows = 1; rows <= most; ++rows) {
    EXPECT_FALSE(is_reused(*compiled(with_rows(rows), {}))) << rows;
  }
  for (int rows = 1; rows <= most; ++rows) {
    const auto again = compiled(with_rows(rows), {});
    EXPECT_TRUE(is_reused(*again)) << rows;
    EXPECT_EQ(again->input_types()[0].shape[0], rows);
  }
}

TEST(KeptPrograms, UsesTakeNoPlaceOfAnotherModel) {
  forget();
  ir::Execution execution;
  for (int rows = 1; rows < kMoreThanKept; ++rows) compiled(with_rows(rows), execution);
  for (const int64_t iterations : {1, 3, 5, 1}) {
    execution.device_iterations = iterations;
    EXPECT_TRUE(is_reused(*compiled(with_rows(1), execution))) << iterations;
  }
  compiled(with_rows(kMoreThanKept), execution);  // in place of the one that was used first
  EXPECT_TRUE(is_reused(*compiled(with_rows(1), execution)));
  EXPECT_TRUE(is_reused(*compiled(with_rows(3), execution)));
  EXPECT_FALSE(is_reused(*compiled(with_rows(2), execution)));
}

// Compiles a model whose constants are more than all others together may have.
std::unique_ptr<Executable> compiled_large(float number, int64_t iterations = 1) {
  constexpr int64_t kElements = 5 << 20;
  const ir::Type type{ir::DType::kF32, {kElements}};
  std::vector<std::byte> data(static_cast<size_t>(type.bytes()));
  std::memcpy(data.data(), &number, sizeof number);
  auto module = std::make_unique<ir::Module>(ops::registry());
  ir::Graph& graph = module->add_graph("main");
  ir::Value* x = graph.add_input(type, "x");
  ir::Builder builder(graph);
  ir::Value* constant = builder.constant(ir::Literal(type, std::move(data)));
  graph.set_outputs({builder.value("add", {x, constant})});
  module->execution().device_iterations = iterations;
  return compile(std::move(module), {.threads = 1});
}

TEST(KeptPrograms, ALargeOneIsKeptUntilAnotherModuleIsCompiled) {
  forget();
  compiled(kModel, {});
  EXPECT_FALSE(is_reused(*compiled_large(1)));
  EXPECT_TRUE(is_reused(*compiled_large(1, 4)));
  EXPECT_TRUE(is_reused(*compiled(kModel, {})));  // a kept one needs no memory for passes
  EXPECT_TRUE(is_reused(*compiled_large(1)));
  EXPECT_FALSE(is_reused(*compiled_large(2)));
  EXPECT_FALSE(is_reused(*compiled_large(1)));
  compiled(with_rows(3), {});
  EXPECT_FALSE(is_reused(*compiled_large(1)));
  EXPECT_TRUE(is_reused(*compiled(with_rows(3), {})));
}

TEST(KeptPrograms, StateIsSeparate) {
  forget();
  const auto first = compiled(kModel, {});
  const auto second = compiled(kModel, {});
  ASSERT_TRUE(is_reused(*second));
  const auto before = run(*second);
  const std::vector<float> zeros(16);
  first->write_state("w", reinterpret_cast<const std::byte*>(zeros.data()));
  EXPECT_EQ(run(*second), before);
  EXPECT_NE(run(*first), before);
}

}  // namespace
}  // namespace poptorch::session
