// Weights in the form that kernels read, in the memory of the state or in a workspace that is
// prepared once: they follow every write of their state, and state that a program writes is never
// treated as prepared.
#include "emulator/bind/bound_program.hpp"
#include "emulator/run/state_store.hpp"
#include "engine_testing.hpp"

namespace poptorch::emulator {
namespace {

using Floats = std::vector<float>;
constexpr size_t kSize = 64;

// x · wᵀ for [64, 64] matrices.
Floats product(const Floats& x, const Floats& w) {
  Floats y(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kSize; ++k) sum += double(x[i * kSize + k]) * w[j * kSize + k];
      y[i * kSize + j] = static_cast<float>(sum);
    }
  }
  return y;
}

void expect_floats(const Bytes& got, const Floats& want) {
  const Floats values = values_of<float>(got);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(values[i], want[i], 1e-4) << i;
}

constexpr const char* kLinear = R"(
state "w" : f32[64,64]
graph @main(%x: f32[64,64]) -> (f32[64,64]) {
  %w = variable() {name="w"} : f32[64,64]
  %y = linear(%x, %w) : f32[64,64]
  return %y
})";

TEST(Prepared, WeightsFollowTheirState) {
  Engine engine(lowered(kLinear), ops::registry(), {.threads = 2});
  const Floats x = numbers(kSize * kSize, 1);
  for (uint32_t seed = 2; seed < 5; ++seed) {
    const Floats w = numbers(kSize * kSize, seed);
    engine.state().write("w", bytes_of(w).data());
    const Bytes first = run_once(engine, {bytes_of(x)})[0];
    expect_floats(first, product(x, w));
    EXPECT_EQ(run_once(engine, {bytes_of(x)})[0], first);  // from the kept workspace
    const Floats other = numbers(kSize * kSize, seed + 10);
    expect_floats(run_once(engine, {bytes_of(other)})[0], product(other, w));
  }
}

TEST(Prepared, WeightsInPanelsAreReadAndWrittenAsPlain) {
  Engine engine(lowered(kLinear), ops::registry(), {.threads = 1});
  const Floats w = numbers(kSize * kSize, 2);
  engine.state().write("w", bytes_of(w).data());
  Bytes read(w.size() * sizeof(float));
  engine.state().read("w", read.data());
  EXPECT_EQ(read, bytes_of(w));
  EXPECT_EQ(engine.state().copied_bytes(), 0);
  const int64_t arena = engine.bound()->code.ipus[0].arena_bytes;
  EXPECT_LE(arena, static_cast<int64_t>(2 * read.size()));  // no workspace: only x and y
}

TEST(Prepared, WeightsThatAreAlsoReadPlainHaveACopyInPanels) {
  Engine engine(lowered(R"(
state "w" : f32[64,64]
graph @main(%x: f32[64,64]) -> (f32[64,64], f32[64,64]) {
  %w = variable() {name="w"} : f32[64,64]
  %y = linear(%x, %w) : f32[64,64]
  %z = add(%x, %w) : f32[64,64]
  return %y, %z
})"),
                ops::registry(), {.threads = 1});
  const Floats x = numbers(kSize * kSize, 1), w = numbers(kSize * kSize, 2);
  engine.state().write("w", bytes_of(w).data());
  const auto results = run_once(engine, {bytes_of(x)});
  expect_floats(results[0], product(x, w));
  Floats sum = x;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += w[i];
  EXPECT_EQ(results[1], bytes_of(sum));
  EXPECT_EQ(engine.state().copied_bytes(), static_cast<int64_t>(w.size() * sizeof(float)));
}

TEST(Prepared, WeightsThatTheProgramWritesAreReadAnew) {
  Engine engine(lowered(R"(
state "w" : f32[64,64]
graph @main(%x: f32[64,64]) -> (f32[64,64]) {
  %w = variable() {name="w"} : f32[64,64]
  %y = linear(%x, %w) : f32[64,64]
  accumulate(%w, %x) {scale=1.0}
  return %y
})"),
                ops::registry(), {.threads = 1});
  const Floats x = numbers(kSize * kSize, 1);
  Floats w = numbers(kSize * kSize, 2);
  engine.state().write("w", bytes_of(w).data());
  for (int run = 0; run < 3; ++run) {
    expect_floats(run_once(engine, {bytes_of(x)})[0], product(x, w));
    for (size_t i = 0; i < w.size(); ++i) w[i] += x[i];
  }
}

}  // namespace
}  // namespace poptorch::emulator
