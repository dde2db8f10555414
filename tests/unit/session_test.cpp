// The façade: batching, forms, reports, options, and what the pass wrapper adds to errors.
#include "session/session.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "session/memory_limit.hpp"
#include "session/pipeline.hpp"
#include "support/error.hpp"

namespace poptorch::session {
namespace {

constexpr const char* kScale = R"(
state "w" : f32[2] {initial=dense<f32[2]: 1.0, 10.0>}
graph @main(%x: f32[1,2]) -> (f32[1,2], f32[], f32[2]) {
  %w = variable() {name="w"} : f32[2]
  %y = mul(%x, %w) : f32[1,2]
  %one = constant() {value=dense<f32[2,1]: 1.0, 1.0>} : f32[2,1]
  %sum = matmul(%y, %one) : f32[1,1]
  %total = reshape(%sum) {shape=[]} : f32[]
  %c = constant() {value=dense<f32[2]: 5.0, 6.0>} : f32[2]
  return %y, %total, %c
}
)";

std::unique_ptr<Executable> compiled(const char* text, const CompileOptions& options) {
  return compile(ir::parse(text, ops::registry()), options);
}

using Floats = std::vector<float>;

std::vector<Floats> run(Executable& executable, const std::vector<Floats>& inputs) {
  std::vector<const std::byte*> sources;
  for (const Floats& input : inputs) {
    sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  std::vector<Floats> results;
  for (const ir::Type& type : executable.output_types()) {
    results.emplace_back(static_cast<size_t>(type.elements()));
  }
  std::vector<std::byte*> targets;
  for (Floats& result : results) targets.push_back(reinterpret_cast<std::byte*>(result.data()));
  executable.run(sources, targets);
  return results;
}

struct Batching {
  OutputMode mode;
  int64_t period;
  ir::Shape rows, totals;  // of the first two outputs
  Floats expected;         // totals
};

// Four micro-batches [i, i]: totals are 11·i.
TEST(Session, KeepsOutputsAsTheModeSays) {
  const Batching cases[] = {
      {OutputMode::kAll, 1, {4, 2}, {4}, {11, 22, 33, 44}},
      {OutputMode::kEveryN, 2, {2, 2}, {2}, {22, 44}},
      {OutputMode::kFinal, 1, {1, 2}, {}, {44}},
      {OutputMode::kSum, 1, {1, 2}, {}, {110}},
  };
  for (const Batching& one : cases) {
    auto executable = compiled(
        kScale, {.device_iterations = 4, .output_mode = one.mode, .output_period = one.period});
    EXPECT_EQ(executable->input_types()[0].shape, (ir::Shape{4, 2}));
    EXPECT_EQ(executable->output_types()[0].shape, one.rows);
    EXPECT_EQ(executable->output_types()[1].shape, one.totals);
    const auto results = run(*executable, {{1, 1, 2, 2, 3, 3, 4, 4}});
    EXPECT_EQ(results[1], one.expected);
    // A constant comes once, whatever the mode.
    EXPECT_EQ(results[2], (Floats{5, 6}));
  }
}

TEST(Session, ReadsAndWritesState) {
  auto executable = compiled(kScale, {});
  Floats w(2);
  executable->read_state("w", reinterpret_cast<std::byte*>(w.data()));
  EXPECT_EQ(w, (Floats{1, 10}));
  w = {3, 4};
  executable->write_state("w", reinterpret_cast<const std::byte*>(w.data()));
  EXPECT_EQ(run(*executable, {{1, 1}})[0], (Floats{3, 4}));
}

TEST(Session, TellsEveryFormAndTheSameTwice) {
  auto a = compiled(kScale, {}), b = compiled(kScale, {});
  for (const char* form : {"traced", "normal", "differentiated", "placed", "program", "bound"}) {
    EXPECT_FALSE(a->text(form).empty()) << form;
    EXPECT_EQ(a->text(form), b->text(form)) << form;
  }
  EXPECT_EQ(a->text("traced"), ir::print(*ir::parse(kScale, ops::registry())));
  EXPECT_NE(a->text("placed").find("@[ipu=0]"), std::string::npos);
  EXPECT_THROW(a->text("lowered"), support::UserError);
}

TEST(Session, ReportsMemoryAndTime) {
  const Report one = compiled(kScale, {})->report();
  const Report four = compiled(kScale, {.device_iterations = 4})->report();
  ASSERT_EQ(one.ipus.size(), 1u);
  EXPECT_EQ(one.ipus[0].state_bytes, 24);  // the weight and two constants
  EXPECT_GT(one.ipus[0].arena_bytes, 0);
  EXPECT_EQ(one.ipus[0].capacity_bytes, int64_t{1472} * 624 * 1024);
  EXPECT_EQ(four.cycles_per_run, 4 * one.cycles_per_run);
  EXPECT_DOUBLE_EQ(one.seconds_per_run, static_cast<double>(one.cycles_per_run) / 1.33e9);
  const Report bow = compiled(kScale, {.device = "ipu21"})->report();
  EXPECT_LT(bow.seconds_per_run, one.seconds_per_run);
}

void expect_refused(const CompileOptions& options, const char* message) {
  try {
    compiled(kScale, options);
    ADD_FAILURE() << "accepted, without: " << message;
  } catch (const support::UserError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(Session, RefusesOptionsThatCannotBe) {
  expect_refused({.device_iterations = 0}, "deviceIterations is 0");
  expect_refused({.gradient_accumulation = -1}, "gradientAccumulation is -1");
  expect_refused({.device_iterations = 3, .output_mode = OutputMode::kEveryN, .output_period = 2},
                 "keeps every 2th of 3 micro-batches");
  expect_refused({.device = "ipu9"}, "there is no device 'ipu9'");
}

// A weight larger than the IPU: a warning unless the user asks for an error.
TEST(Session, TellsWhenTheMemoryDoesNotSuffice) {
  constexpr const char* kLarge = R"(
state "head.weight" : f32[20000,20000]
graph @main(%x: f32[1,20000]) -> (f32[1,20000]) {
  %w = variable() {name="head.weight"} : f32[20000,20000]
  %y = linear(%x, %w) : f32[1,20000] scope("head")
  return %y
}
)";
  auto compile_only = [&] {
    return compile_to_program(ir::parse(kLarge, ops::registry()), {}, {}).program;
  };
  const std::string text = describe_overflow(compile_only());
  for (const char* part : {"[memory] IPU 0 needs 1600", "but has 940572672", "'head.weight'",
                           "in head f32[1,20000]", "poptorch.Block"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
  setenv("POPTORCH_MEMORY_LIMIT", "error", 1);
  EXPECT_THROW(compile_only(), support::UserError);
  setenv("POPTORCH_MEMORY_LIMIT", "never", 1);
  EXPECT_THROW(compile_only(), support::UserError);
  unsetenv("POPTORCH_MEMORY_LIMIT");
}

TEST(Session, NamesThePassOfAnError) {
  CompileOptions options{.training = true};
  options.optimiser.emplace();
  options.optimiser->groups.push_back({.values = {{"lr", 0.1}}, .parameters = {"w"}});
  try {
    compiled(kScale, options);
    ADD_FAILURE() << "a model without loss was accepted";
  } catch (const support::UserError& error) {
    ASSERT_FALSE(error.frames().empty());
    EXPECT_EQ(error.frames()[0], "pass differentiate");
  }
}

TEST(Session, TellsProgressStepByStep) {
  std::vector<std::string> names;
  compile(ir::parse(kScale, ops::registry()), {},
          [&](int done, int steps, const std::string& name) {
            EXPECT_EQ(steps, kCompileSteps);
            EXPECT_EQ(done, static_cast<int>(names.size())) << name;
            names.push_back(name);
          });
  EXPECT_EQ(names.size(), static_cast<size_t>(kCompileSteps) + 1);
  EXPECT_EQ(names.back(), "ready");
  EXPECT_NE(std::find(names.begin(), names.end(), "lower"), names.end());
}

}  // namespace
}  // namespace poptorch::session
