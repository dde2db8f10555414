// The façade: batching, IR stages, reports, options, errors of passes, and interrupts.
#include "session/session.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "account/memory_limit.hpp"
#include "account/simulate.hpp"
#include "compile/pipeline.hpp"
#include "ir/text.hpp"
#include "lowering/lower.hpp"
#include "ops/all_ops.hpp"
#include "program/text.hpp"
#include "session/exclusive_access.hpp"
#include "support/error.hpp"
#include "support/watch.hpp"

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

std::unique_ptr<ir::Module> parsed(const char* text, ir::Execution execution) {
  auto module = ir::parse(text, ops::registry());
  module->execution() = std::move(execution);
  return module;
}

std::unique_ptr<Executable> compiled(const char* text, ir::Execution execution) {
  return compile(parsed(text, std::move(execution)));
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
  ir::OutputMode mode;
  int64_t period;
  ir::Shape rows, totals;     // of the first two outputs
  Floats expected, constant;  // totals, and the output that is a constant
};

// Four micro-batches [i, i]: totals are 11·i.
TEST(Session, KeepsOutputsAsTheModeSays) {
  const Batching cases[] = {
      {ir::OutputMode::kAll, 1, {4, 2}, {4}, {11, 22, 33, 44}, {5, 6, 5, 6, 5, 6, 5, 6}},
      {ir::OutputMode::kEveryN, 2, {2, 2}, {2}, {22, 44}, {5, 6, 5, 6}},
      {ir::OutputMode::kFinal, 1, {1, 2}, {}, {44}, {5, 6}},
      {ir::OutputMode::kSum, 1, {1, 2}, {}, {110}, {20, 24}},
  };
  for (const Batching& one : cases) {
    auto executable = compiled(
        kScale, {.device_iterations = 4, .output_mode = one.mode, .output_period = one.period});
    EXPECT_EQ(executable->input_types()[0].shape, (ir::Shape{4, 2}));
    EXPECT_EQ(executable->output_types()[0].shape, one.rows);
    EXPECT_EQ(executable->output_types()[1].shape, one.totals);
    const auto results = run(*executable, {{1, 1, 2, 2, 3, 3, 4, 4}});
    EXPECT_EQ(results[1], one.expected);
    EXPECT_EQ(results[2], one.constant);
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

TEST(Session, MakesIrStagesAgainAsTheyWere) {
  const compile::Compiled made = compile::compile_to_program(parsed(kScale, {}), {}, {});
  const compile::Stages stages = compile::stages_of(made);
  EXPECT_EQ(program::print(lowering::lower(*stages.placed)), program::print(made.program));
  setenv("POPTORCH_DISABLE_PASSES", "fold_constants,canonicalise", 1);
  auto a = compiled(kScale, {}), b = compiled(kScale, {});
  const std::string before = a->text("normal");
  unsetenv("POPTORCH_DISABLE_PASSES");
  EXPECT_EQ(b->text("normal"), before);
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

void expect_refused(const ir::Execution& options, const char* message) {
  try {
    compiled(kScale, options);
    ADD_FAILURE() << "accepted, without: " << message;
  } catch (const support::UserError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(Session, RefusesOptionsThatCannotBe) {
  expect_refused({.device_iterations = 0}, "device_iterations is 0");
  expect_refused({.gradient_accumulation = -1}, "gradient_accumulation is -1");
  expect_refused(
      {.device_iterations = 3, .output_mode = ir::OutputMode::kEveryN, .output_period = 2},
      "keeps one in 2 of the 3 micro-batches");
  expect_refused({.device = "ipu9"}, "no device is named 'ipu9'");
}

// For loops that are too long to be simulated, the time is that of a pipeline that continues at its
// rate.
TEST(Session, TellsTheTimeOfLongLoops) {
  constexpr const char* kPipeline = R"(
state "a.weight" : f32[8,4]
graph @main(%x: f32[2,4]) -> (f32[2,8]) {
  %w = variable() {name="a.weight"} : f32[8,4] @[ipu=0]
  %h = linear(%x, %w) : f32[2,8] @[ipu=0]
  %y = relu(%h) : f32[2,8] @[ipu=1]
  %z = exp(%y) : f32[2,8] @[ipu=2]
  return %z
}
)";
  auto cycles = [&](int64_t iterations) {
    auto module = parsed(kPipeline, {.device_iterations = iterations});
    const auto compiled =
        compile::compile_to_program(std::move(module), {.round_ipu_count = true}, {});
    return account::simulate(compiled.program).cycles;
  };
  const int64_t few = cycles(1000), step = cycles(1001) - few;
  EXPECT_EQ(cycles(20000), few + 19000 * step);
  for (const int64_t many : {1'000'000, 1'000'000'000}) {
    EXPECT_EQ(cycles(many), few + (many - 1000) * step) << many;
  }
}

// Compares work, bytes and waiting of two IPUs with the text.
TEST(Session, AccountsForTheWorkOfEachIpu) {
  constexpr const char* kTwo = R"(
state "a.weight" : f32[8,4]
graph @main(%x: f32[2,4]) -> (f32[2,8]) {
  %w = variable() {name="a.weight"} : f32[8,4] @[ipu=0]
  %h = linear(%x, %w) : f32[2,8] scope("a") @[ipu=0]
  %y = relu(%h) : f32[2,8] scope("b") @[ipu=1]
  return %y
}
)";
  const auto model = compiled(kTwo, {.strategy = "sharded", .device_iterations = 3});
  const Report report = model->report();
  ASSERT_EQ(report.ipus.size(), 2u);
  EXPECT_EQ(model->ipus(), 2);
  EXPECT_EQ(report.ipus[0].weight_bytes, 128);
  EXPECT_EQ(report.ipus[1].weight_bytes, 0);
  EXPECT_EQ(report.work[0].link_bytes, 3 * 64);
  EXPECT_EQ(report.work[1].link_bytes, 0);
  EXPECT_EQ(report.work[0].host_bytes, 3 * 32);
  EXPECT_EQ(report.work[1].host_bytes, 3 * 64);
  int64_t idle = 0;
  for (const account::WorkReport& work : report.work) {
    EXPECT_EQ(work.compute_cycles + work.link_cycles + work.host_cycles + work.streaming_cycles +
                  work.idle_cycles,
              report.cycles_per_run);
    EXPECT_GT(work.idle_cycles, 0);
    idle += work.idle_cycles;
  }
  EXPECT_DOUBLE_EQ(report.bubbles, static_cast<double>(idle) / (2.0 * report.cycles_per_run));
  ASSERT_EQ(report.ops.size(), 2u);
  EXPECT_GE(report.ops[0].cycles, report.ops[1].cycles);
  for (const account::OpReport& op : report.ops) {
    EXPECT_EQ(op.count, 3);
    EXPECT_EQ(op.module, op.op == "linear" ? "a" : "b");
    EXPECT_EQ(op.ipu, op.op == "linear" ? 0 : 1);
  }
  EXPECT_EQ(report.idle_ipus, 0);
  EXPECT_EQ(report.streaming_capacity, int64_t{224} * 1000 * 1000 * 1000);
}

// A weight larger than the IPU: a warning unless the user asks for an error.
TEST(Session, TellsWhenTheMemoryDoesNotSuffice) {
  constexpr const char* kLarge = R"(
state "head.weight" : f32[20000,20000]
state "tail.weight" : f32[2000,20000]
graph @main(%x: f32[1,20000]) -> (f32[1,2000]) {
  %w = variable() {name="head.weight"} : f32[20000,20000]
  %y = linear(%x, %w) : f32[1,20000] scope("head")
  %v = variable() {name="tail.weight"} : f32[2000,20000]
  %z = linear(%y, %v) : f32[1,2000] scope("tail")
  return %z
}
)";
  auto compile_only = [&](account::MemoryLimit limit) {
    return compile::compile_to_program(ir::parse(kLarge, ops::registry()), {.memory_limit = limit},
                                       {})
        .program;
  };
  const program::Program program = compile_only(account::MemoryLimit::kOff);
  const std::string text = account::describe_overflow(program);
  for (const char* part :
       {"[memory] IPU 0 needs 177", "but has 940572672", "activations and temporaries 10.8 MB",
        "weights 1760.0 MB", "'head.weight'", "in head f32[1,20000]",
        "begin a block on another IPU at 'tail'", "(saves 160.0 MB)", "setWeightLocation",
        "(saves 1760.0 MB, enough)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
  EXPECT_THROW(compile_only(account::MemoryLimit::kError), support::UserError);
  setenv("POPTORCH_MEMORY_LIMIT", "error", 1);
  EXPECT_THROW(compile_only(account::MemoryLimit::kUnset), support::UserError);
  EXPECT_NO_THROW(compile_only(account::MemoryLimit::kOff));  // the options take precedence
  setenv("POPTORCH_MEMORY_LIMIT", "never", 1);
  EXPECT_THROW(compile_only(account::MemoryLimit::kUnset), support::UserError);
  unsetenv("POPTORCH_MEMORY_LIMIT");
}

TEST(Session, NamesThePassOfAnError) {
  ir::Execution options{.training = true};
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
  auto module = ir::parse(kScale, ops::registry());
  module->execution().random_seed = 269;  // no other test compiles it, so all passes run
  const int all = compile::compile_steps(*module);
  compile(std::move(module), {}, [&](int done, int steps, const std::string& name) {
    EXPECT_EQ(steps, all);
    EXPECT_EQ(done, static_cast<int>(names.size())) << name;
    names.push_back(name);
  });
  EXPECT_EQ(names.size(), static_cast<size_t>(all) + 1);
  EXPECT_EQ(names.back(), "ready");
  EXPECT_NE(std::find(names.begin(), names.end(), "lower"), names.end());
}

// Many layers, one after the other.
std::string deep(int layers) {
  std::string text = "graph @main(%x0: f32[1,2]) -> (f32[1,2]) {\n";
  for (int i = 0; i < layers; ++i) {
    const std::string from = std::to_string(i), to = std::to_string(i + 1);
    text += "  %s" + from + " = sin(%x" + from + ") : f32[1,2]\n";
    text += "  %x" + to + " = add(%s" + from + ", %x" + from + ") : f32[1,2]\n";
  }
  return text + "  return %x" + std::to_string(layers) + "\n}\n";
}

TEST(Session, StopsACompilation) {
  auto module = ir::parse(deep(5000), ops::registry());
  int asked = 0;
  support::Watch watch([&asked] { return ++asked > 0; }, support::Watch::kEveryTime);
  EXPECT_THROW(compile(std::move(module), {}), support::Interrupted);
  EXPECT_EQ(asked, 1);
}

TEST(Session, RunsNothingOnceClosed) {
  const auto model = compiled(kScale, {});
  const std::vector<Floats> inputs = {{1, 1}};
  run(*model, inputs);
  model->close();
  EXPECT_THROW(run(*model, inputs), support::UserError);
  Floats weight(2);
  model->read_states({{"w", reinterpret_cast<std::byte*>(weight.data())}});
  EXPECT_EQ(weight, Floats({1, 10}));
  model->reopen();
  EXPECT_EQ(run(*model, inputs)[1], Floats({11}));
}

// The thread that has access gets an error, another waits or is refused.
TEST(Session, GivesOneThreadAccess) {
  ExclusiveAccess access;
  bool second = false;
  std::thread waiting;
  {
    const ExclusiveAccess::Guard first(access);
    EXPECT_THROW(const ExclusiveAccess::Guard again(access), support::UserError);
    std::thread([&] {
      using Refusing = ExclusiveAccess::Guard;
      EXPECT_THROW(const Refusing refused(access, ExclusiveAccess::IfTaken::kRefuse),
                   support::UserError);
      const support::Watch watch([] { return true; }, support::Watch::kEveryTime);
      EXPECT_THROW(const Refusing stopped(access), support::Interrupted);
    }).join();
    waiting = std::thread([&] {
      const ExclusiveAccess::Guard later(access);
      second = true;
    });
    EXPECT_FALSE(second);
  }
  waiting.join();
  EXPECT_TRUE(second);
}

}  // namespace
}  // namespace poptorch::session
