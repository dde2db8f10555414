// Several IPUs and replicas: the same values for every assignment to threads, and no deadlock.
#include <fstream>
#include <sstream>

#include "emulator/run/state_store.hpp"
#include "engine_testing.hpp"
#include "ir/execution.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

using Floats = std::vector<float>;

std::string read_text(const std::string& name) {
  std::ifstream in(std::string(POPTORCH_TESTS_DIR) + "/ir/programs/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

program::Program parsed(const std::string& text) {
  program::Program program = program::parse(text, ops::registry());
  program::verify(program);
  return program;
}

// Every way to run a program of several machines.
std::vector<EngineOptions> all_ways() {
  std::vector<EngineOptions> ways;
  for (int threads : {1, 2, 4}) {
    for (bool concurrent : {false, true}) {
      for (bool fuse : {false, true}) {
        ways.push_back({.threads = threads, .concurrent_machines = concurrent, .fuse = fuse});
      }
    }
  }
  return ways;
}

TEST(EngineExchange, PipelineTrainsLikeOneIpu) {
  const program::Program one =
      lowered(read_text("training.ir"), {.device_iterations = 2, .gradient_accumulation = 4});
  const program::Program two = parsed(read_text("pipelined_training.program"));
  const Outcome expected = outcome(one, {.threads = 1}, 3);
  for (const EngineOptions& way : all_ways()) {
    const Outcome piped = outcome(two, way, 3);
    EXPECT_EQ(piped.states.at("w0"), expected.states.at("w0"));
    EXPECT_EQ(piped.states.at("w1"), expected.states.at("w1"));
  }
}

// The host reads values back that a backward stage recomputes; results are bit-identical.
TEST(EngineExchange, KeepsTheProductsThatAPipelineRecomputes) {
  const program::Program program = parsed(read_text("recomputed_training.program"));
  auto products = [&](bool keep) {
    const std::string text = Engine(program, ops::registry(), {.keep_recomputed = keep}).text();
    size_t count = 0;
    for (size_t at = 0; (at = text.find(" = linear(", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  // Two layers on the first IPU: in the ramp-up and in the steady state, and again in the steady
  // state and in the ramp-down. The last stage recomputes nothing.
  EXPECT_EQ(products(false), products(true) + 4);
  const Outcome expected = outcome(program, {.threads = 1, .keep_recomputed = false}, 3);
  for (const EngineOptions& way : all_ways()) {
    const Outcome kept = outcome(program, way, 3);
    EXPECT_EQ(kept.states, expected.states);
    EXPECT_EQ(kept.outputs, expected.outputs);
  }
}

// Convolutions on both sides of a channel, and of a stash, pass tensors in their layout: only the
// model's input and output are reordered.
TEST(EngineExchange, CarriesTheLayoutOfConvolutions) {
  const program::Program program = lowered(R"(
state "w0" : f32[8,8,3,3] {kind="parameter"}
state "w1" : f32[8,8,3,3] {kind="parameter"}
graph @main(%x: f32[2,8,6,6]) -> (f32[2,8,6,6]) {
  %w0 = variable() {name="w0"} : f32[8,8,3,3]
  %w1 = variable() {name="w1"} : f32[8,8,3,3]
  %a = conv(%x, %w0, _) {strides=[1,1], padding=[1,1], dilation=[1,1], groups=1} : f32[2,8,6,6] @[ipu=0 stage=0]
  %a_1 = ipu_copy(%a) {to=1} : f32[2,8,6,6] @[ipu=0 stage=0]
  %b = conv(%a_1, %w1, _) {strides=[1,1], padding=[1,1], dilation=[1,1], groups=1} : f32[2,8,6,6] @[ipu=1 stage=1]
  %b_0 = ipu_copy(%b) {to=0} : f32[2,8,6,6] @[ipu=1 stage=1]
  %c = add(%a, %b_0) : f32[2,8,6,6] @[ipu=0 stage=2]
  %y = conv(%c, %w0, _) {strides=[1,1], padding=[1,1], dilation=[1,1], groups=1} : f32[2,8,6,6] @[ipu=0 stage=2]
  return %y
}
)",
                                           {.device_iterations = 5});
  const std::string text = Engine(program, ops::registry(), {}).text();
  for (const char* line : {"send(%a:channels_last)", "%a_1:channels_last = receive()",
                           "stash(%a:channels_last)", "send(%b:channels_last)"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
  }
  EXPECT_EQ(text.find("reorder(%a"), std::string::npos) << text;
  EXPECT_EQ(text.find("reorder(%b"), std::string::npos) << text;
  const Outcome expected = outcome(program, {.threads = 1});
  for (const EngineOptions& way : all_ways()) EXPECT_EQ(outcome(program, way), expected);
  expect_close(expected.outputs[0], outcome(program, {.threads = 1, .layouts = false}).outputs[0],
               "y");
}

TEST(EngineExchange, GroupsOfReplicasReduceInOrder) {
  const program::Program program = parsed(read_text("replicas.program"));
  for (const EngineOptions& way : all_ways()) {
    Engine engine(program, ops::registry(), way);
    engine.state().write("w", bytes_of(Floats{10, 20, 30, 100, 200, 300}).data());
    const auto outputs =
        run_once(engine, {bytes_of(Floats{1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60})});
    EXPECT_EQ(values_of<float>(outputs[0]),
              (Floats{-1, -2, -3, 56, 145, 234, -1, -2, -3, 56, 145, 234}));
    Bytes w(24);
    engine.state().read("w", w.data());
    EXPECT_EQ(values_of<float>(w), (Floats{-1, -2, -3, 56, 145, 234}));
  }
}

TEST(EngineExchange, PhasesGoThroughStreamingMemory) {
  const program::Program program = parsed(read_text("phased.program"));
  Engine engine(program, ops::registry(), {.threads = 1});
  engine.write_remote("weights", 0, 0, bytes_of(Floats{1, 2, 3, 4}).data());
  engine.write_remote("weights", 0, 1, bytes_of(Floats{1, 1, 2, 2}).data());
  const auto outputs = run_once(engine, {bytes_of(Floats{1, 1, 1, 1, 1, 2, 3, 4})});
  EXPECT_EQ(values_of<float>(outputs[0]), (Floats{1, 2, 6, 8, 2, 8, 36, 64}));
  Bytes row(16);
  engine.read_remote("weights", 0, 1, row.data());
  EXPECT_EQ(values_of<float>(row), (Floats{4, 4, 8, 8}));
  EXPECT_THROW(engine.read_remote("weights", 0, 2, row.data()), support::UserError);
  EXPECT_THROW(engine.read_remote("weigths", 0, 0, row.data()), support::UserError);
}

// IPU 0 sends six tensors on one channel before it uses the other, which IPU 1 reads first.
constexpr const char* kOneSided = R"(program {replicas=2}
stream "x" : f32[2] {to_device=true, transfers=12}
stream "y" : f32[2] {transfers=6}
tensor %x : f32[2] at arena(0)
tensor %z : f32[2] at arena(64)
tensor %a : f32[2] {ipu=1} at arena(0)
tensor %b : f32[2] {ipu=1} at arena(64)
tensor %y : f32[2] {ipu=1} at arena(128)
ipu 0 @[arena=72] {
  loop(6) {
    %x = stream_in() @[stream="x"]
    send(%x) @[channel=0 peer=1]
  }
  loop(6) {
    %z = stream_in() @[stream="x"]
    send(%z) @[channel=1 peer=1]
  }
  sync()
}
ipu 1 @[arena=136] {
  loop(6) {
    %b = receive() @[channel=1 peer=0]
    %a = receive() @[channel=0 peer=0]
    %y = sub(%a, %b) @[id=1]
    stream_out(%y) @[stream="y"]
  }
  sync()
}
)";

TEST(EngineExchange, SendersNeverWaitForEver) {
  const program::Program program = parsed(kOneSided);
  const Outcome expected = outcome(program, {.threads = 1});
  const auto values = values_of<float>(expected.outputs[0]);
  const auto x = values_of<float>(made_up_inputs(program)[0]);
  // Transfer t of replica r is element 2 t + r.
  EXPECT_EQ(values[0], x[0] - x[2 * 2 * 6]);
  EXPECT_EQ(values[2], x[2] - x[2 * 2 * 6 + 2]);
  for (const EngineOptions& way : all_ways()) EXPECT_EQ(outcome(program, way), expected);
}

// Random numbers follow the counter of micro-batches, which a loop steps even if it has no work.
TEST(EngineExchange, LoopsThatOnlyWaitCountTheirMicroBatches) {
  const auto program_of = [](const std::string& waiting, int drawn) {
    return parsed(
        "program {micro_batches=3}\nstream \"y\" : f32[4] {transfers=" + std::to_string(drawn) +
        "}\ntensor %y : f32[4] at arena(0)\nipu 0 @[arena=16] {\n" + waiting + "  loop(" +
        std::to_string(drawn) +
        R"() @[per_micro_batch=true] {
    %y = random_uniform() {shape=[4], low=0.0, high=1.0} @[id=1]
    stream_out(%y) @[stream="y"]
    sync() {carries="links"}
  }
}
)");
  };
  const Outcome all = outcome(program_of("", 3), {.threads = 1});
  const std::string waiting =
      "  loop(1) @[per_micro_batch=true] {\n    sync() {carries=\"links\"}\n  }\n";
  const Outcome last = outcome(program_of(waiting, 2), {.threads = 1});
  const auto expected = values_of<float>(all.outputs[0]), found = values_of<float>(last.outputs[0]);
  ASSERT_EQ(found.size(), 8);
  EXPECT_EQ(found, (Floats{expected.begin() + 4, expected.end()}));
}

// A run that fails half way (a row out of range, after a send) leaves nothing for the next one.
TEST(EngineExchange, RunsAgainAfterAnError) {
  const program::Program program = parsed(R"(program
remote "rows" : f32[2]
stream "row" : i32[] {to_device=true}
stream "x" : f32[2] {to_device=true}
stream "y" : f32[2]
tensor %x : f32[2] at arena(0)
tensor %row : i32[] at arena(64)
tensor %y : f32[2] {ipu=1} at arena(0)
ipu 0 @[arena=68] {
  %x = stream_in() @[stream="x"]
  send(%x) @[channel=0 peer=1]
  %row = stream_in() @[stream="row"]
  store(%x, %row) @[remote="rows"]
  sync()
}
ipu 1 @[arena=8] {
  sync()
  %y = receive() @[channel=0 peer=0]
  stream_out(%y) @[stream="y"]
}
)");
  Engine engine(program, ops::registry(), {.threads = 1});
  const Bytes zero = bytes_of(std::vector<int32_t>{0}), one = bytes_of(std::vector<int32_t>{1});
  EXPECT_THROW(run_once(engine, {one, bytes_of(Floats{1, 2})}), support::UserError);
  const auto outputs = run_once(engine, {zero, bytes_of(Floats{3, 4})});
  EXPECT_EQ(values_of<float>(outputs[0]), (Floats{3, 4}));
}

TEST(EngineExchange, RefusesIpusThatWaitForEachOther) {
  std::string text = kOneSided;
  text.replace(text.find("loop(6) {\n    %b"), 7,
               "loop(7)");  // receives a tensor that is never sent
  Engine engine(program::parse(text, ops::registry()), ops::registry(), {.threads = 1});
  EXPECT_THROW(run_once(engine, made_up_inputs(engine.program())), support::InternalError);
}

// Tensors that are exchanged only through channels arrive in order: only the cost model needs the
// sync.
TEST(EngineExchange, IpusMeetOnlyWhereTheyShareMemory) {
  auto meets = [](const std::string& text) {
    return Engine(parsed(text), ops::registry(), {}).text().find("sync") != std::string::npos;
  };
  EXPECT_FALSE(meets(kOneSided));
  EXPECT_TRUE(meets(read_text("phased.program")));
}

struct KeepCase {
  ir::OutputMode keep;
  int64_t period;
  Floats expected;
};

TEST(EngineStreams, KeepWhatTheHostAsksFor) {
  using ir::OutputMode;
  const KeepCase cases[] = {{OutputMode::kAll, 1, {1, 2, 3, 4}},
                            {OutputMode::kEveryN, 2, {2, 4}},
                            {OutputMode::kFinal, 1, {4}},
                            {OutputMode::kSum, 1, {10}}};
  for (const KeepCase& c : cases) {
    const program::Program program =
        lowered("graph @main(%x: f32[1]) -> (f32[1]) {\n  %y = relu(%x) : f32[1]\n  return %y\n}\n",
                {.device_iterations = 4, .output_mode = c.keep, .output_period = c.period});
    Engine engine(program, ops::registry(), {.threads = 1});
    const auto outputs = run_once(engine, {bytes_of(Floats{1, 2, 3, 4})});
    EXPECT_EQ(values_of<float>(outputs[0]), c.expected);
  }
}

TEST(EngineRandom, FollowsSeedReplicaAndMicroBatch) {
  const program::Program program = lowered(
      "graph @main() -> (f32[4]) {\n"
      "  %y = random_uniform() {shape=[4], low=0.0, high=1.0, dtype=f32} : f32[4]\n"
      "  return %y\n}\n",
      {.device_iterations = 2, .replication_factor = 2});
  Engine engine(program, ops::registry(), {.threads = 2, .random_seed = 5});
  const Bytes first = run_once(engine, {})[0];
  const auto values = values_of<float>(first);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(values[4 * i], values[4 * j]);
  }
  const RandomState after = engine.random_state();
  EXPECT_EQ(after.seed, 5u);
  EXPECT_EQ(after.micro_batch, 2u);
  EXPECT_NE(run_once(engine, {})[0], first);
  engine.set_random_state({5, 0});
  EXPECT_EQ(run_once(engine, {})[0], first);
  Engine again(program, ops::registry(),
               {.threads = 1, .random_seed = 5, .concurrent_machines = false});
  EXPECT_EQ(run_once(again, {})[0], first);
}

}  // namespace
}  // namespace poptorch::emulator
