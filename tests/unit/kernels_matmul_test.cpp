// linear and matmul against plain loops in double, over every route, with chains and half types.
#include "emulator/kernels/base/relayout.hpp"
#include "kernel_harness.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Shape;

// y[m,n] of one matrix by the definition.
double dot(const TestTensor& a, const TestTensor& b, int64_t i, int64_t j, int64_t k, bool ta,
           bool tb, int64_t m, int64_t n) {
  double sum = 0;
  for (int64_t p = 0; p < k; ++p) {
    sum += a.at(ta ? p * m + i : i * k + p) * b.at(tb ? j * k + p : p * n + j);
  }
  return sum;
}

struct ProductSize {
  int64_t m, n, k;
};

TEST(Matmul, MatchesLoopsOnEveryRouteAndThreadCount) {
  Sample sample;
  for (ProductSize s : {ProductSize{1, 8, 8},
                        {5, 19, 7},
                        {8, 130, 300},
                        {33, 70, 260},
                        {200, 40, 300},
                        {130, 100, 9},
                        {7, 1, 64},
                        {1, 1, 1},
                        {1, 1, 700},
                        {130, 1, 300},
                        {97, 33, 600}}) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        TestTensor a = random_f32(ta ? Shape{s.k, s.m} : Shape{s.m, s.k}, 1);
        TestTensor b = random_f32(tb ? Shape{s.n, s.k} : Shape{s.k, s.n}, 2);
        KernelRun run("matmul", {{"transpose_a", ta}, {"transpose_b", tb}}, {&a, &b});
        ASSERT_TRUE(run.bind());
        expect_deterministic(run);
        for (int64_t i = 0; i < s.m; i += 1 + s.m / 20) {
          for (int64_t j = 0; j < s.n; j += 1 + s.n / 20) {
            if (!sample.takes()) continue;
            ASSERT_NEAR(run.outputs[0].at(i * s.n + j), dot(a, b, i, j, s.k, ta, tb, s.m, s.n),
                        2e-5)
                << s.m << "x" << s.n << "x" << s.k << ta << tb << " at " << i << "," << j;
          }
        }
      }
    }
  }
}

TEST(Matmul, BroadcastsBatches) {
  TestTensor a = random_f32({3, 1, 4, 5}, 1), b = random_f32({2, 5, 6}, 2);
  KernelRun run("matmul", {}, {&a, &b});
  ASSERT_TRUE(run.bind());
  expect_deterministic(run);
  for (int64_t x = 0; x < 3; ++x) {
    for (int64_t y = 0; y < 2; ++y) {
      for (int64_t e = 0; e < 24; ++e) {
        double want = 0;
        for (int64_t p = 0; p < 5; ++p) {
          want += a.at(x * 20 + e / 6 * 5 + p) * b.at(y * 30 + p * 6 + e % 6);
        }
        ASSERT_NEAR(run.outputs[0].at((x * 2 + y) * 24 + e), want, 1e-5);
      }
    }
  }
}

// Returns the layout that the row asks for of operand 1, when no step writes that operand.
Layout panels_asked_for(KernelRun& run) {
  run.request.input_fixed = {false, true, true};
  run.request.input_fixed.resize(run.request.inputs.size());
  all_kernels().find(run.request.op->name)->choose_layouts(run.request);
  return run.request.input_layouts[1];
}

struct PanelCase {
  const char* op;
  bool ta, tb;
  Shape a, b;
};

TEST(Matmul, ReadsPanelsOfAFixedOperandFromMemory) {
  for (const PanelCase& c : {PanelCase{"linear", false, true, {30, 70}, {48, 70}},
                             PanelCase{"linear", false, true, {2, 20, 33}, {16, 33}},
                             PanelCase{"linear", false, true, {40, 64}, {64, 64}},
                             PanelCase{"matmul", false, true, {97, 300}, {112, 300}},
                             PanelCase{"matmul", false, false, {30, 70}, {70, 48}},
                             PanelCase{"matmul", false, false, {64, 64}, {64, 64}},
                             PanelCase{"matmul", true, false, {3, 40, 30}, {40, 32}}}) {
    TestTensor a = random_f32(c.a, 1), b = random_f32(c.b, 2);
    ir::Attrs attrs;
    if (c.op == std::string("matmul")) attrs = {{"transpose_a", c.ta}, {"transpose_b", c.tb}};
    KernelRun plain(c.op, attrs, {&a, &b});
    ASSERT_TRUE(plain.bind());
    plain.run(1);
    TestTensor panels(b.type), back(b.type);
    KernelRun run(c.op, attrs, {&a, &panels});
    const Layout layout = panels_asked_for(run);
    EXPECT_EQ(layout.kind, c.tb ? Layout::Kind::kPanelsOfRows : Layout::Kind::kPanelsOfColumns);
    from_plain(layout, b.type, b.data.data(), panels.data.data());
    EXPECT_FALSE(panels == b);
    to_plain(layout, b.type, panels.data.data(), back.data.data());
    EXPECT_TRUE(back == b);
    ASSERT_TRUE(run.bind());
    EXPECT_EQ(run.kernel->workspace_bytes(), 0);
    expect_deterministic(run);
    EXPECT_TRUE(run.outputs[0] == plain.outputs[0]) << c.op << c.ta << c.tb;
  }
}

TEST(Matmul, AsksForPanelsOnlyWhereItWouldPackThem) {
  TestTensor x = random_f32({30, 64}, 1), few = random_f32({8, 64}, 1), w = random_f32({48, 64}, 2),
             ragged = random_f32({50, 64}, 2), deep = random_f32({2, 64, 48}, 2);
  TestTensor half(DType::kF16, {48, 64}, -1, 1, 2), half_x(DType::kF16, {30, 64}, -1, 1, 1);
  auto asks = [](KernelRun run) { return !(panels_asked_for(run) == Layout{}); };
  EXPECT_TRUE(asks(KernelRun("linear", {}, {&x, &w})));
  EXPECT_FALSE(asks(KernelRun("linear", {}, {&few, &w})));
  EXPECT_FALSE(asks(KernelRun("linear", {}, {&x, &ragged})));
  EXPECT_FALSE(asks(KernelRun("linear", {}, {&half_x, &half})));
  EXPECT_FALSE(asks(KernelRun("matmul", {}, {&x, &deep})));
  KernelRun written("linear", {}, {&x, &w});
  written.request.input_fixed = {false, false};
  all_kernels().find("linear")->choose_layouts(written.request);
  EXPECT_TRUE(written.request.input_layouts[1] == Layout{});
}

TEST(Linear, AddsBiasAndRunsTheChainOnItsBlocks) {
  for (int64_t rows : {1, 8, 30}) {
    const int64_t in = 70, out = 100;
    TestTensor x = random_f32({rows, in}, 1), w = random_f32({out, in}, 2),
               bias = random_f32({out}, 3), skip = random_f32({rows, out}, 4);
    std::vector<double> expected;
    for (int64_t i = 0; i < rows * out; ++i) {
      expected.push_back(dot(x, w, i / out, i % out, in, false, true, rows, out) +
                         bias.at(i % out));
    }
    TestTensor sum({DType::kF32, {rows, out}});
    TileProgramBuilder builder({rows, out});
    const int y = builder.input({DType::kF32, {rows, out}});
    const int s = builder.input({DType::kF32, {rows, out}});
    builder.output(builder.op(ops::registry().get("add"), {}, {y, s}, {DType::kF32})[0]);
    auto chain = builder.finish();
    for (bool keep : {true, false}) {
      KernelRun run("linear", {}, {&x, &w, &bias}, chain.get(), keep);
      run.buffers.push_back(skip.data.data());
      run.buffers.push_back(sum.data.data());
      ASSERT_TRUE(run.bind());
      for (int threads : {0, 1, 2, 4}) {
        std::fill(sum.data.begin(), sum.data.end(), std::byte{0});
        run.run(threads);
        for (int64_t i = 0; i < rows * out; ++i) {
          ASSERT_NEAR(sum.at(i), expected[i] + skip.at(i), 1e-5);
          if (keep) {
            ASSERT_NEAR(run.outputs[0].at(i), expected[i], 1e-5);
          }
        }
      }
    }
  }
}

TEST(Matmul, FusesTheUpdateOfItsWeightGradient) {
  for (int64_t in : {90, 88, 200}) {
    const int64_t out = 50, batch = 8;
    TestTensor dy = random_f32({batch, out}, 1), x = random_f32({batch, in}, 2),
               w = random_f32({out, in}, 3);
    const TestTensor before = w;
    TestTensor lr(DType::kF64, {}, 0.05, 0.05, 1), decay(DType::kF64, {}, 0, 0, 1);
    TileProgramBuilder builder({out, in});
    const int g = builder.input({DType::kF32, {out, in}}),
              v = builder.input({DType::kF32, {out, in}});
    const int rate = builder.input({DType::kF64, {}}), d = builder.input({DType::kF64, {}});
    builder.output(
        builder.op(ops::registry().get("sgd_update"), {}, {v, g, rate, d}, {DType::kF32})[0]);
    auto chain = builder.finish();
    KernelRun run("matmul", {{"transpose_a", true}}, {&dy, &x}, chain.get(), false);
    for (TestTensor* t : {&w, &lr, &decay, &w}) run.buffers.push_back(t->data.data());
    ASSERT_TRUE(run.bind());
    run.run(2);
    for (int64_t i = 0; i < out * in; ++i) {
      const double grad = dot(dy, x, i / in, i % in, batch, true, false, out, in);
      ASSERT_NEAR(w.at(i), before.at(i) - 0.05 * grad, 1e-6);
    }
  }
}

// Updates as PopXL writes them, of a weight, a moment in float16 and one in float32.
std::shared_ptr<const TileProgram> update_chain(const Shape& space, bool adam) {
  TileProgramBuilder b(space);
  const DType f16 = DType::kF16, f32 = DType::kF32;
  auto emit = [&](const char* name, std::vector<int> operands, DType result, ir::Attrs attrs = {}) {
    return b.op(ops::registry().get(name), attrs, operands, {result})[0];
  };
  const int g = b.input({f32, space}), w = b.input({f32, space});
  if (!adam) {
    b.output(emit("accumulate", {w, g}, f32, {{"scale", -0.05}}));
    return b.finish();
  }
  const int m = b.input({f16, space}), v = b.input({f32, space});
  auto scaled = [&](double by, int x) { return emit("mul", {b.constant(f32, by), x}, f32); };
  const int sample = emit("cast", {emit("cast", {g}, f16)}, f32);
  const int sum = emit("add", {scaled(0.9, emit("cast", {m}, f32)), scaled(0.1, sample)}, f32);
  const int first = emit("assign", {m, emit("cast", {sum}, f16)}, f16);
  const int square = emit("mul", {scaled(0.001, g), g}, f32);
  const int second = emit("assign", {v, emit("add", {scaled(0.999, v), square}, f32)}, f32);
  const int root = emit("add", {emit("sqrt", {second}, f32), b.constant(f32, 1e-5)}, f32);
  const int ratio = emit("div", {emit("cast", {first}, f32), root}, f32);
  const int step = emit("cast", {ratio}, f16);
  b.output(emit("accumulate", {w, step}, f32, {{"scale", -0.01}}));
  b.output(first);
  b.output(second);
  return b.finish();
}

TEST(Matmul, GivesAdamTheBitsFromRegistersThatMemoryGives) {
  const Shape space{50, 136};
  for (bool decoupled : {false, true}) {
    TileProgramBuilder builder(space);
    const ir::Type tensor{DType::kF32, space}, number{DType::kF64, {}};
    const int g = builder.input(tensor);
    std::vector<int> operands = {builder.input(tensor), builder.input(tensor),
                                 builder.input(tensor), g};
    std::vector<TestTensor> hyper;
    for (double value : {3.0, 1e-3, 0.9, 0.999, 1e-8, 0.01}) {
      operands.push_back(builder.input(number));
      hyper.emplace_back(DType::kF64, Shape{}, value, value, 1);
    }
    const std::vector<DType> results(3, DType::kF32);
    for (int reg : builder.op(ops::registry().get("adam_update"), {{"decoupled", decoupled}},
                              operands, results)) {
      builder.output(reg);
    }
    auto chain = builder.finish();
    EXPECT_TRUE(chain->takes_product()) << chain->text();
    TestTensor a = random_f32({8, 50}, 1), b = random_f32({8, 136}, 2);
    const std::vector<TestTensor> before = {random_f32(space, 3), random_f32(space, 4),
                                            TestTensor(DType::kF32, space, 0, 1, 5)};
    std::vector<TestTensor> expected;
    for (bool keep : {true, false}) {
      std::vector<TestTensor> state = before;
      KernelRun run("matmul", {{"transpose_a", true}}, {&a, &b}, chain.get(), keep);
      for (TestTensor& t : state) run.buffers.push_back(t.data.data());
      for (TestTensor& t : hyper) run.buffers.push_back(t.data.data());
      for (TestTensor& t : state) run.buffers.push_back(t.data.data());
      ASSERT_TRUE(run.bind());
      run.run(2);
      if (keep) expected = state;
      for (size_t i = 0; i < state.size(); ++i) {
        EXPECT_TRUE(state[i] == expected[i] && !(state[i] == before[i])) << i;
      }
    }
  }
}

TEST(Matmul, GivesChainsTheBitsFromRegistersThatMemoryGives) {
  for (ProductSize s : {ProductSize{50, 200, 8}, {7, 8, 32}, {300, 136, 3}, {64, 64, 1}}) {
    for (bool adam : {false, true}) {
      const Shape space{s.m, s.n};
      auto chain = update_chain(space, adam);
      EXPECT_TRUE(chain->takes_product()) << chain->text();
      TestTensor a = random_f32({s.k, s.m}, 1), b = random_f32({s.k, s.n}, 2);
      std::vector<TestTensor> before;
      before.push_back(random_f32(space, 3));
      before.emplace_back(DType::kF16, space, -1, 1, 4);
      before.emplace_back(DType::kF32, space, 0, 1, 5);
      before.resize(adam ? 3 : 1, before[0]);
      std::vector<TestTensor> expected;
      for (bool keep : {true, false}) {
        for (int threads : {1, 0, 3}) {
          std::vector<TestTensor> state = before;
          KernelRun run("matmul", {{"transpose_a", true}}, {&a, &b}, chain.get(), keep);
          for (int i = 0; i < 2; ++i) {  // read, and written
            for (TestTensor& t : state) run.buffers.push_back(t.data.data());
          }
          ASSERT_TRUE(run.bind());
          run.run(threads);
          if (expected.empty()) expected = state;
          EXPECT_FALSE(state[0] == before[0]);
          for (size_t i = 0; i < state.size(); ++i) EXPECT_TRUE(state[i] == expected[i]) << i;
        }
      }
    }
  }
}

TEST(Linear, ComputesHalfInFloatAndRoundsOnce) {
  for (DType half : {DType::kF16, DType::kBF16}) {
    TestTensor x(half, {9, 33}, -1, 1, 1), w(half, {20, 33}, -1, 1, 2), b(half, {20}, -1, 1, 3);
    KernelRun run("linear", {}, {&x, &w, &b});
    ASSERT_TRUE(run.bind());
    expect_deterministic(run);
    for (int64_t i = 0; i < 180; ++i) {
      const double want = dot(x, w, i / 20, i % 20, 33, false, true, 9, 20) + b.at(i % 20);
      ASSERT_NEAR(run.outputs[0].at(i), want, half == DType::kF16 ? 4e-3 : 3e-2);
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
