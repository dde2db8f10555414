// Updates of weights of halves, which read them from memory: bit-identical to the float kernels on
// widened operands, rounded once.
#include "half_harness.hpp"
#include "reference/rounding_bits.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Shape;

// The sizes of a product that makes a gradient.
struct UpdateProduct {
  int64_t m, n, k;
};

// An update of a weight of shape `space` by a gradient of halves; its tensors after the weight are
// floats.
struct HalfUpdate {
  const char* op;
  ir::Attrs attrs;
  std::vector<double> numbers;
  int gradient, moments;
};
const HalfUpdate kUpdates[] = {
    {"sgd_update", {}, {0.05, 0.01}, 1, 0},
    {"accumulate", {{"scale", 0.5}}, {}, 1, 0},
    {"adam_update", {{"decoupled", true}}, {3.0, 1e-3, 0.9, 0.999, 1e-8, 0.01}, 3, 2},
    {"adam_update", {{"decoupled", false}}, {3.0, 1e-3, 0.9, 0.999, 1e-8, 0.01}, 3, 2}};

std::vector<TestTensor> state_of(const HalfUpdate& u, DType dtype, const Shape& space) {
  std::vector<TestTensor> state{random_halves(dtype, space, 3, false)};
  for (int i = 0; i < u.moments; ++i) state.emplace_back(DType::kF32, space, 0, 1, 4 + i);
  return state;
}

std::vector<TestTensor> numbers_of(const HalfUpdate& u) {
  std::vector<TestTensor> numbers;
  for (double value : u.numbers) numbers.emplace_back(DType::kF64, Shape{}, value, value, 1);
  return numbers;
}

// Adds the operands of an update after its gradient, and its results, which replace the state.
void add_buffers(std::vector<std::byte*>& buffers, std::vector<TestTensor>& state,
                 std::vector<TestTensor>& numbers) {
  for (TestTensor& t : state) buffers.push_back(t.data.data());
  for (TestTensor& t : numbers) buffers.push_back(t.data.data());
  for (TestTensor& t : state) buffers.push_back(t.data.data());
}

constexpr uint64_t kUpdateId = 7;
std::shared_ptr<const TileProgram> program_of(const HalfUpdate& u, DType weight, DType gradient,
                                              const Shape& space) {
  TileProgramBuilder b(space);
  const int g = b.input({gradient, space});
  std::vector<int> operands{b.input({weight, space})};
  std::vector<DType> results{weight};
  for (int i = 0; i < u.moments; ++i) {
    operands.push_back(b.input({DType::kF32, space}));
    results.push_back(DType::kF32);
  }
  operands.push_back(g);
  for (size_t i = 0; i < u.numbers.size(); ++i) operands.push_back(b.input({DType::kF64, {}}));
  for (int reg : b.op(ops::registry().get(u.op), u.attrs, operands, results, kUpdateId)) {
    b.output(reg);
  }
  return b.finish();
}

TEST(HalfUpdates, RoundOnceWhatTheFloatUpdateGives) {
  for (const HalfUpdate& u : kUpdates) {
    for (DType dtype : kHalfTypes) {
      for (DType gradient : {dtype, DType::kF32}) {
        const Shape space{3, 337};
        std::vector<TestTensor> state = state_of(u, dtype, space), wide;
        for (const TestTensor& t : state) wide.push_back(widened(t));
        TestTensor g(gradient, space, -1, 1, 9), wide_g = widened(g);
        std::vector<TestTensor> numbers = numbers_of(u);
        auto run = [&](std::vector<TestTensor>& tensors, TestTensor& slope) {
          const auto program = program_of(u, tensors[0].type.dtype, slope.type.dtype, space);
          const auto kernel = bind_tile_program(program);
          std::vector<std::byte*> buffers{slope.data.data()};
          add_buffers(buffers, tensors, numbers);
          AlignedBytes scratch(kernel->scratch_bytes());
          for (int i = 0; i < kernel->tasks(0); ++i) {
            kernel->run({buffers.data(), scratch.data(), nullptr, {}}, 0, i);
          }
          return program->text();
        };
        const std::string text = run(state, g);
        run(wide, wide_g);
        EXPECT_NE(text.find(u.op), std::string::npos);
        EXPECT_EQ(text.find("narrow"), std::string::npos) << text;
        for (size_t i = 0; i < state.size(); ++i) expect_rounded(state[i], wide[i]);
      }
    }
  }
}

// Any NaN equals any other: which operand's NaN a multiply-add returns is up to the compiler.
void expect_equal(const TestTensor& got, const TestTensor& want) {
  const int64_t size = ir::size_of(want.type.dtype);
  for (int64_t i = 0; i < want.type.elements(); ++i) {
    if (std::isnan(want.at(i)) && std::isnan(got.at(i))) continue;
    ASSERT_EQ(std::memcmp(&got.data[i * size], &want.data[i * size], size), 0) << i;
  }
}

TEST(HalfUpdates, TakeProductsFromRegisters) {
  Sample sample(12);
  for (const HalfUpdate& u : kUpdates) {
    for (DType dtype : kHalfTypes) {
      for (UpdateProduct s : {UpdateProduct{50, 200, 8}, {7, 8, 32}, {300, 136, 3}, {64, 24, 1}}) {
        if (!sample.takes()) continue;
        SCOPED_TRACE(testing::Message() << u.op << s.m << "x" << s.n << "x" << s.k);
        const Shape space{s.m, s.n};
        const auto chain = program_of(u, dtype, dtype, space);
        EXPECT_TRUE(chain->takes_product()) << chain->text();
        const bool special = u.moments == 0;  // Adam flushes denormals
        TestTensor a = random_halves(dtype, {s.k, s.m}, 1, special);
        TestTensor b = random_halves(dtype, {s.k, s.n}, 2, special);
        std::vector<TestTensor> expected, numbers = numbers_of(u);
        for (bool keep : {true, false}) {
          for (int threads : {1, 0, 3}) {
            std::vector<TestTensor> state = state_of(u, dtype, space);
            KernelRun run("matmul", {{"transpose_a", true}}, {&a, &b}, chain.get(), keep);
            add_buffers(run.buffers, state, numbers);
            ASSERT_TRUE(run.bind());
            run.run(threads);
            if (expected.empty()) expected = state;
            for (size_t i = 0; i < state.size(); ++i) expect_equal(state[i], expected[i]);
          }
        }
      }
    }
  }
}

// Returns the weights after an update of floats, rounded with the bits of the reference.
TestTensor rounded_at_random(const HalfUpdate& u, DType dtype, std::vector<TestTensor> state,
                             TestTensor gradient, const RandomKey& key, uint64_t op_id) {
  const Shape space = gradient.type.shape;
  std::vector<TestTensor> numbers = numbers_of(u);
  TestTensor rounded = state[0];
  state[0] = widened(state[0]);
  const auto kernel = bind_tile_program(program_of(u, DType::kF32, DType::kF32, space));
  std::vector<std::byte*> buffers{gradient.data.data()};
  add_buffers(buffers, state, numbers);
  AlignedBytes scratch(kernel->scratch_bytes());
  for (int i = 0; i < kernel->tasks(0); ++i) {
    kernel->run({buffers.data(), scratch.data(), nullptr, {}}, 0, i);
  }
  RandomKey own = key;
  own.op_id = op_id, own.replica = 0;  // all replicas write the same numbers
  const reference::RoundingBits bits(own);
  const bool half = dtype == DType::kF16;
  for (int64_t i = 0; i < rounded.type.elements(); ++i) {
    const double value = reference::rounded_at_random(
        state[0].at(i), bits.of(static_cast<uint64_t>(i)), half ? 11 : 8, half ? -14 : -126);
    halves(rounded)[i] = narrowed(dtype, static_cast<float>(value));
  }
  return rounded;
}

TEST(HalfUpdates, RoundAtRandomByTheIndexOfTheElement) {
  Sample sample(12);
  const RandomKey key{.seed = 5, .op_id = 1, .replica = 3, .micro_batch = 2};
  for (HalfUpdate u : kUpdates) {
    for (DType dtype : kHalfTypes) {
      for (UpdateProduct s :
           {UpdateProduct{50, 208, 8}, {7, 8, 32}, {300, 136, 3}, {64, 24, 1}, {16, 64, 2}}) {
        if (!sample.takes()) continue;
        SCOPED_TRACE(testing::Message() << u.op << s.m << "x" << s.n << "x" << s.k);
        const Shape space{s.m, s.n};
        TestTensor a = random_f32({s.k, s.m}, 1), b = random_f32({s.k, s.n}, 2);
        u.attrs.set("stochastic_rounding", false);
        KernelRun product("matmul", {{"transpose_a", true}}, {&a, &b});
        ASSERT_TRUE(product.bind());
        product.run(1);
        const TestTensor expected = rounded_at_random(u, dtype, state_of(u, dtype, space),
                                                      product.outputs[0], key, kUpdateId);
        u.attrs.set("stochastic_rounding", true);
        const auto chain = program_of(u, dtype, DType::kF32, space);
        EXPECT_TRUE(chain->takes_product()) << chain->text();
        for (bool keep : {true, false}) {
          for (int threads : {1, 3}) {
            std::vector<TestTensor> state = state_of(u, dtype, space), numbers = numbers_of(u);
            KernelRun run("matmul", {{"transpose_a", true}}, {&a, &b}, chain.get(), keep);
            add_buffers(run.buffers, state, numbers);
            ASSERT_TRUE(run.bind());
            run.run(threads, key);
            expect_equal(state[0], expected);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
