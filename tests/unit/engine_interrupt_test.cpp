// A run that its watch stops: it ends soon in any situation, and affects later runs only through
// the state that it wrote.
#include "arming.hpp"
#include "compile/pipeline.hpp"
#include "emulator/run/state_store.hpp"
#include "engine_testing.hpp"
#include "support/watch.hpp"
#include "trained_net.hpp"

namespace poptorch::emulator {
namespace {

// Stops the work at its n-th check.
class StopsAt : public support::Watch {
 public:
  explicit StopsAt(int look) : Watch([this, look] { return ++looks_ == look; }, kEveryTime) {}

 private:
  int looks_ = 0;
};

// The check that stops the work. Without a stop, a thread would check hundreds of times.
constexpr int kLook = 20;

// Two linear layers with a weight each, on IPUs 0 and `second`.
std::string net(int second) {
  const std::string first = "@[ipu=0 stage=0]";
  const std::string there =
      "@[ipu=" + std::to_string(second) + " stage=" + std::to_string(second) + "]";
  return R"(
state "w" : f32[4,4]
state "v" : f32[4,4]
graph @main(%x: f32[2,4]) -> (f32[]) {
  %w = variable() {name="w"} : f32[4,4] )" +
         first + R"(
  %v = variable() {name="v"} : f32[4,4] )" +
         there + R"(
  %h = linear(%x, %w, _) : f32[2,4] )" +
         first + R"(
  %d, %mask = dropout(%h) {p=0.25} : f32[2,4], bool[2,4] )" +
         first + R"(
  %y = linear(%d, %v, _) : f32[2,4] )" +
         there + R"(
  %s = mul(%y, %y) : f32[2,4] )" +
         there + R"(
  %m = mean(%s) {axes=[0,1]} : f32[] )" +
         there + R"(
  %loss = identity_loss(%m) {reduction="none"} : f32[] )" +
         there + R"(
  return %loss
}
)";
}

program::Program compiled(int ipus, int replicas) {
  auto module = ir::parse(net(ipus - 1), ops::registry());
  ir::Execution& options = module->execution();
  options.training = true;
  options.device_iterations = 2;
  options.gradient_accumulation = 2000;
  options.replication_factor = replicas;
  options.output_mode = ir::OutputMode::kFinal;
  options.optimiser = momentum_sgd();
  return std::move(compile::compile_to_program(std::move(module), {}, {}).program);
}

struct StoppedRun {
  int ipus, replicas, threads;
};

class EngineInterrupt : public testing::TestWithParam<StoppedRun> {};

// Writes all states except the sums of gradients.
void write_states(Engine& engine) {
  uint32_t seed = 7;
  for (const program::State& state : engine.program().states) {
    if (state.slot.kind == "accumulator") continue;
    const std::string& name = state.slot.name.text();
    const auto bytes = static_cast<size_t>(engine.state().bytes(name));
    const bool is_float = state.slot.type.dtype == ir::DType::kF32;
    engine.state().write(name,
                         (is_float ? bytes_of(numbers(bytes / 4, seed++)) : Bytes(bytes)).data());
  }
}

Outcome outcome_of(Engine& engine, const std::vector<Bytes>& inputs) {
  write_states(engine);
  engine.set_random_state({});
  Outcome result;
  result.outputs = run_once(engine, inputs);
  for (const program::State& state : engine.program().states) {
    const std::string& name = state.slot.name.text();
    Bytes& bytes = result.states[name];
    bytes.resize(static_cast<size_t>(engine.state().bytes(name)));
    engine.state().read(name, bytes.data());
  }
  return result;
}

// The fault sends its signal after the last IPU has finished a hundred micro-batches, in any
// thread.
TEST_P(EngineInterrupt, EndsSoonAndLeavesNothingToTheNextRun) {
  const program::Program program = compiled(GetParam().ipus, GetParam().replicas);
  const std::vector<Bytes> inputs = made_up_inputs(program);
  const EngineOptions options{.threads = GetParam().threads};
  Engine fresh(program, ops::registry(), options);
  const Outcome expected = outcome_of(fresh, inputs);
  EXPECT_FALSE(fresh.left_state_partial());

  Engine engine(program, ops::registry(), options);
  write_states(engine);
  {
    const support::Handling handling(SIGINT);
    const int last = GetParam().ipus * GetParam().replicas - 1;
    const support::Arming fault(support::str("run:1:100:", last, ":SIGINT"));
    support::Watch watch([] { return support::received > 0; }, std::chrono::hours(1));
    EXPECT_THROW(run_once(engine, inputs), support::Interrupted);
  }
  EXPECT_TRUE(engine.left_state_partial());
  const Outcome after = outcome_of(engine, inputs);
  EXPECT_EQ(after.outputs, expected.outputs);
  for (const auto& [name, bytes] : expected.states) EXPECT_EQ(after.states.at(name), bytes) << name;
  EXPECT_FALSE(engine.left_state_partial());
}

INSTANTIATE_TEST_SUITE_P(Ways, EngineInterrupt,
                         testing::Values(StoppedRun{1, 1, 1}, StoppedRun{1, 1, 4},
                                         StoppedRun{2, 1, 1}, StoppedRun{2, 1, 2},
                                         StoppedRun{1, 2, 2}, StoppedRun{2, 2, 3}));

// The random numbers of a repeat depend on the round: an interrupted round must not shift those of
// the next run.
TEST(EngineInterruptOfRepeats, LeavesTheRoundsAlone) {
  const program::Program program = lowered(R"(
graph @round(%a: f32[1]) -> (f32[1]) {
  %r = random_uniform() {shape=[1], low=0.0, high=1.0} : f32[1]
  return %r
}
graph @main(%x: f32[1]) -> (f32[1]) {
  %y = repeat(%x) {graph=@round, count=15000} : f32[1]
  return %y
}
)");
  const std::vector<Bytes> inputs = made_up_inputs(program);
  Engine fresh(program, ops::registry(), {.threads = 1});
  const std::vector<Bytes> expected = run_once(fresh, inputs);
  Engine engine(program, ops::registry(), {.threads = 1});
  {
    StopsAt watch(kLook);
    EXPECT_THROW(run_once(engine, inputs), support::Interrupted);
  }
  EXPECT_FALSE(engine.left_state_partial());
  EXPECT_EQ(run_once(engine, inputs), expected);
}

TEST(Watch, IsOfOneThreadAndNests) {
  EXPECT_EQ(support::Watch::current(), nullptr);
  support::check_interrupt();
  {
    support::Watch outer([] { return false; });
    {
      support::Watch inner([] { return false; });
      EXPECT_EQ(support::Watch::current(), &inner);
    }
    EXPECT_EQ(support::Watch::current(), &outer);
  }
  EXPECT_EQ(support::Watch::current(), nullptr);
}

TEST(Watch, StopsWorkThatAsks) {
  StopsAt watch(kLook);
  const auto work = [] {
    for (;;) support::check_interrupt();
  };
  EXPECT_THROW(work(), support::Interrupted);
}

}  // namespace
}  // namespace poptorch::emulator
