// Helpers of the engine's tests: programs from IR text, tensors as vectors, and runs under several
// options whose results must be bit-identical.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "emulator/engine.hpp"
#include "emulator/run/state_store.hpp"
#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "lowering/lower.hpp"
#include "ops/all_ops.hpp"

namespace poptorch::emulator {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Parses a module and sets its execution.
inline std::unique_ptr<ir::Module> parsed(const std::string& text, ir::Execution execution) {
  auto module = ir::parse(text, ops::registry());
  module->execution() = std::move(execution);
  return module;
}

inline program::Program lowered(const std::string& text, ir::Execution execution = {}) {
  return lowering::lower(*parsed(text, std::move(execution)));
}

// Returns numbers in [-1, 1) that depend only on `seed`.
inline std::vector<float> numbers(size_t count, uint32_t seed) {
  std::vector<float> out(count);
  uint32_t state = seed * 2654435761u + 12345u;
  for (float& value : out) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return out;
}

// The results of a run: outputs by stream, then states by name.
struct Outcome {
  std::vector<Bytes> outputs;
  std::map<std::string, Bytes> states;
  bool operator==(const Outcome&) const = default;
};

// Compares bytes of float32 elements.
inline void expect_close(const Bytes& a, const Bytes& b, const std::string& what) {
  const auto x = values_of<float>(a), y = values_of<float>(b);
  ASSERT_EQ(x.size(), y.size()) << what;
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(x[i], y[i], 1e-3 * (0.1 + std::fabs(y[i]))) << what << " element " << i;
  }
}

inline std::vector<Bytes> run_once(Engine& engine, const std::vector<Bytes>& inputs) {
  std::vector<Bytes> outputs;
  for (const program::Stream& stream : engine.program().streams) {
    if (stream.host.to_device) continue;
    outputs.emplace_back(static_cast<size_t>(engine.host_type(stream).bytes()));
  }
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const Bytes& input : inputs) in.push_back(input.data());
  for (Bytes& output : outputs) out.push_back(output.data());
  engine.run(in, out);
  return outputs;
}

// Returns input buffers of the right size: floats in [-1, 1), integers 0, 1, 2, ... modulo 3.
inline std::vector<Bytes> made_up_inputs(const program::Program& program) {
  std::vector<Bytes> inputs;
  uint32_t seed = 1;
  for (const program::Stream& stream : program.streams) {
    if (!stream.host.to_device) continue;
    const ir::Type type = stream.host_type(program.replicas);
    const auto count = static_cast<size_t>(type.elements());
    if (type.dtype == ir::DType::kF32) {
      inputs.push_back(bytes_of(numbers(count, seed++)));
    } else {
      std::vector<int32_t> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i % 3);
      inputs.push_back(bytes_of(values));
    }
  }
  return inputs;
}

// Returns the states by name, each with all its groups.
inline std::map<std::string, Bytes> states_of(Engine& engine) {
  std::map<std::string, Bytes> states;
  for (const program::State& state : engine.program().states) {
    const std::string& name = state.slot.name.text();
    Bytes& bytes = states[name];
    bytes.resize(static_cast<size_t>(engine.state().bytes(name)));
    engine.state().read(name, bytes.data());
  }
  return states;
}

// Parameters start as made-up numbers; all states are read after `runs` runs.
inline Outcome outcome(const program::Program& program, const EngineOptions& options,
                       int runs = 2) {
  Engine engine(program, ops::registry(), options);
  uint32_t seed = 100;
  for (const program::State& state : program.states) {
    if (state.slot.kind != "parameter" || state.slot.type.dtype != ir::DType::kF32) continue;
    const auto count = static_cast<size_t>(engine.state().bytes(state.slot.name.text()) / 4);
    engine.state().write(state.slot.name.text(), bytes_of(numbers(count, seed++)).data());
  }
  Outcome result;
  for (int i = 0; i < runs; ++i) result.outputs = run_once(engine, made_up_inputs(program));
  result.states = states_of(engine);
  return result;
}

}  // namespace poptorch::emulator
