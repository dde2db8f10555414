// Runs four programs written by hand from end to end: they cover what the IR and the program text
// must express.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "emulator/engine.hpp"
#include "emulator/run/state_store.hpp"
#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "lowering/lower.hpp"
#include "ops/all_ops.hpp"
#include "program/program.hpp"

namespace poptorch {
namespace {

using emulator::Engine;
using program::Program;

std::string read_file(const std::string& name) {
  const std::string path = POPTORCH_TESTS_DIR "/ir/programs/" + name;
  std::ifstream in(path);
  EXPECT_TRUE(in) << name;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Program read_program(const std::string& name) {
  Program program = program::parse(read_file(name), ops::registry(), name);
  program::verify(program);
  // The text loses nothing.
  const std::string text = program::print(program);
  EXPECT_EQ(program::print(program::parse(text, ops::registry())), text);
  return program;
}

Program lower_file(const std::string& name, ir::Execution execution = {}) {
  const auto module = ir::parse(read_file(name), ops::registry(), name);
  module->execution() = std::move(execution);
  return lowering::lower(*module);
}

using Floats = std::vector<float>;

const std::byte* bytes(const Floats& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}
std::byte* bytes(Floats& values) { return reinterpret_cast<std::byte*>(values.data()); }

Floats state(const Engine& engine, const std::string& name) {
  Floats values(static_cast<size_t>(engine.state().bytes(name)) / sizeof(float));
  engine.state().read(name, bytes(values));
  return values;
}

Floats run(Engine& engine, const Floats& input, size_t output_elements) {
  Floats output(output_elements);
  if (output_elements) {
    engine.run({bytes(input)}, {bytes(output)});
  } else {
    engine.run({bytes(input)}, {});
  }
  return output;
}

// Returns elements of seven different values, which are exact in binary.
Floats ramp(size_t count, float step) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = step * static_cast<float>(i % 7) - step;
  return values;
}

TEST(HandWrittenPrograms, PipelinedTrainingEqualsOneIpu) {
  Engine pipelined(read_program("pipelined_training.program"), ops::registry());
  Engine single(lower_file("training.ir", {.device_iterations = 2, .gradient_accumulation = 4}),
                ops::registry());
  const Floats w0 = ramp(6, 0.25f), w1 = ramp(6, 0.125f);
  for (Engine* engine : {&pipelined, &single}) {
    engine->state().write("w0", bytes(w0));
    engine->state().write("w1", bytes(w1));
  }
  for (int step = 0; step < 3; ++step) {
    const Floats x = ramp(8 * 4, 0.125f * static_cast<float>(step + 1));
    EXPECT_EQ(run(pipelined, x, 32), run(single, x, 32)) << "losses of run " << step;
    for (const char* name : {"w0", "w1", "acc0", "acc1"}) {
      EXPECT_EQ(state(pipelined, name), state(single, name)) << name << " after run " << step;
    }
  }
  EXPECT_NE(state(single, "w0"), w0);
  EXPECT_NE(state(single, "w1"), w1);
}

TEST(HandWrittenPrograms, AdamByReferenceGivesTheKnownValues) {
  Engine engine(lower_file("adam_by_reference.ir"), ops::registry());
  run(engine, {0.1f}, 0);
  uint16_t half = 0;
  ASSERT_EQ(engine.state().bytes("m"), 2);
  engine.state().read("m", reinterpret_cast<std::byte*>(&half));
  EXPECT_NEAR(ir::from_half_bits(half), 0.009995, 5e-7);
  EXPECT_EQ(state(engine, "v")[0], 9.9998715e-06f);
  EXPECT_EQ(state(engine, "step")[0], 1.0f);
  EXPECT_NEAR(state(engine, "w")[0], -0.001, 1e-5);
}

TEST(HandWrittenPrograms, PhasesLoadAndStoreOffChip) {
  Engine engine(read_program("phased.program"), ops::registry());
  const Floats w0 = {1, 2, 3, 4}, w1 = {10, 20, 30, 40};
  engine.write_remote("weights", 0, 0, bytes(w0));
  engine.write_remote("weights", 0, 1, bytes(w1));
  const Floats x = {1, 1, 1, 1, 2, 2, 2, 2};
  // The first micro-batch doubles w1 for the second.
  EXPECT_EQ(run(engine, x, 8), (Floats{10, 40, 90, 160, 40, 160, 360, 640}));
  Floats back(4);
  engine.read_remote("weights", 0, 1, bytes(back));
  EXPECT_EQ(back, (Floats{40, 80, 120, 160}));
  engine.read_remote("activations", 0, 0, bytes(back));
  EXPECT_EQ(back, (Floats{2, 4, 6, 8}));
}

TEST(HandWrittenPrograms, GroupsOfReplicasShareAWeight) {
  Engine engine(read_program("replicas.program"), ops::registry());
  const Floats w = {1, 1, 1, 2, 2, 2};  // [groups, 3]
  ASSERT_EQ(engine.state().bytes("w"), static_cast<int64_t>(w.size() * sizeof(float)));
  engine.state().write("w", bytes(w));
  const Floats x = {1, 2, 3, 10, 20, 30, 100, 200, 300, 1000, 2000, 3000};  // [replicas, 3]
  const Floats even = {1 - 101, 1 - 202, 1 - 303};                          // replicas 0 and 2
  const Floats odd = {2 - 1010, 2 - 2020, 2 - 3030};                        // replicas 1 and 3
  Floats seen = even;
  for (const Floats* group : {&odd, &even, &odd}) {
    seen.insert(seen.end(), group->begin(), group->end());
  }
  EXPECT_EQ(run(engine, x, 12), seen);
  Floats both = even;
  both.insert(both.end(), odd.begin(), odd.end());
  EXPECT_EQ(state(engine, "w"), both);
}

}  // namespace
}  // namespace poptorch
