// Normalisation, attention, recurrent, embedding and movement kernels against the reference.
#include "kernel_harness.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Ints;
using ir::Shape;

TestTensor positive(Shape shape, uint32_t seed = 1) {
  return TestTensor(DType::kF32, std::move(shape), 0.5, 2, seed);
}

TEST(BatchNorm, MatchesTheReference) {
  for (Shape shape : {Shape{30, 70}, {4, 20, 9, 7}, {3, 5, 40}}) {
    const Shape c = {shape[1]};
    TestTensor x = random_f32(shape);
    // A large mean must not reduce the precision.
    for (int64_t i = 0; i < x.type.elements(); ++i) x.f32()[i] += 100;
    for (bool channels_last : {false, true}) {
      expect_matches_reference(
          {"batch_norm",
           {{"eps", 1e-5}},
           {x, random_f32(c, 2), random_f32(c, 3), random_f32(c, 4), positive(c, 5)},
           2e-4,
           channels_last});
    }
    expect_matches_reference({"batch_norm", {{"eps", 1e-5}}, {random_f32(shape)}, 1e-5, true});
    for (bool weight : {true, false}) {
      std::optional<TestTensor> w;
      if (weight) w = random_f32(c, 2);
      expect_matches_reference(
          {"batch_norm_grad",
           {},
           {random_f32(shape), w, random_f32(c, 3), positive(c, 4), random_f32(shape, 5)},
           1e-4,
           true});
    }
    expect_matches_reference(
        {"batch_norm_factors",
         {{"eps", 1e-5}},
         {random_f32(c, 2), random_f32(c, 3), random_f32(c, 4), positive(c, 5)}});
  }
}

// Returns the results of a kernel in row-major order, with images in one layout.
std::vector<TestTensor> results_in(Layout::Kind layout, const char* op, const ir::Attrs& attrs,
                                   std::vector<TestTensor> operands) {
  std::vector<TestTensor*> inputs;
  const bool last = layout == Layout::Kind::kChannelsLast;
  for (TestTensor& operand : operands) {
    if (last && operand.type.rank() >= 3) operand = reordered(operand, true);
    inputs.push_back(&operand);
  }
  KernelRun run(op, attrs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->type.rank() >= 3) run.request.input_layouts[i].kind = layout;
  }
  run.request.output_layouts[0].kind = layout;
  EXPECT_TRUE(run.bind());
  run.run(1);
  std::vector<TestTensor> results = run.outputs;
  if (last) results[0] = reordered(results[0], false);
  return results;
}

TEST(BatchNorm, HasTheSameBitsInBothLayouts) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Shape& shape :
         {Shape{4, 20, 9, 7}, Shape{2, 37, 16, 16}, Shape{1, 3, 70, 70}, Shape{5, 130, 6, 6}}) {
      const Shape c = {shape[1]};
      const TestTensor x(dtype, shape, -1, 3, 1), dy(dtype, shape, -1, 1, 2);
      const std::vector<TestTensor> forward = {x, random_f32(c, 2), random_f32(c, 3),
                                               random_f32(c, 4), positive(c, 5)};
      const std::vector<TestTensor> backward = {x, random_f32(c, 2), random_f32(c, 3),
                                                positive(c, 4), dy};
      using enum Layout::Kind;
      const ir::Attrs attrs = {{"eps", 1e-5}};
      EXPECT_EQ(results_in(kPlain, "batch_norm", attrs, forward),
                results_in(kChannelsLast, "batch_norm", attrs, forward));
      EXPECT_EQ(results_in(kPlain, "batch_norm_grad", {}, backward),
                results_in(kChannelsLast, "batch_norm_grad", {}, backward));
    }
  }
}

TEST(LayerNorm, MatchesTheReference) {
  for (int64_t axes : {1, 2}) {
    const Shape shape = {70, 4, 33}, inner(shape.end() - axes, shape.end()),
                outer(shape.begin(), shape.end() - axes);
    const ir::Attrs attrs = {{"axes_count", axes}, {"eps", 1e-5}};
    expect_matches_reference(
        {"layer_norm", attrs, {random_f32(shape), random_f32(inner, 2), random_f32(inner, 3)}});
    expect_matches_reference({"layer_norm", attrs, {random_f32(shape)}});
    expect_matches_reference({"layer_norm_grad",
                              {{"axes_count", axes}},
                              {random_f32(shape), random_f32(inner, 2), random_f32(outer, 3),
                               positive(outer, 4), random_f32(shape, 5)},
                              1e-4});
  }
}

TEST(Lstm, MatchesTheReference) {
  for (bool reverse : {false, true}) {
    for (int64_t time : {1, 5}) {
      const int64_t batch = 11, in = 7, n = 20;
      const ir::Attrs attrs = {{"reverse", reverse}};
      TestTensor x = random_f32({time, batch, in}), h = random_f32({batch, n}, 2),
                 c = random_f32({batch, n}, 3), wi = random_f32({4 * n, in}, 4),
                 wh = random_f32({4 * n, n}, 5), bi = random_f32({4 * n}, 6),
                 bh = random_f32({4 * n}, 7);
      expect_matches_reference({"lstm", attrs, {x, h, c, wi, wh, bi, bh}});
      expect_matches_reference({"lstm", attrs, {x, h, c, wi, wh}});
      KernelRun forward("lstm", attrs, {&x, &h, &c, &wi, &wh, &bi, &bh});
      ASSERT_TRUE(forward.bind());
      forward.run(1);
      expect_matches_reference(
          {"lstm_grad",
           attrs,
           {x, h, c, wi, wh, forward.outputs[0], forward.outputs[3],
            random_f32({time, batch, n}, 8), random_f32({batch, n}, 9), random_f32({batch, n}, 10)},
           1e-4});
    }
  }
}

TEST(Gru, MatchesTheReference) {
  for (bool reverse : {false, true}) {
    for (int64_t time : {1, 5}) {
      const int64_t batch = 11, in = 7, n = 20;
      const ir::Attrs attrs = {{"reverse", reverse}};
      TestTensor x = random_f32({time, batch, in}), h = random_f32({batch, n}, 2),
                 wi = random_f32({3 * n, in}, 3), wh = random_f32({3 * n, n}, 4),
                 bi = random_f32({3 * n}, 5), bh = random_f32({3 * n}, 6);
      expect_matches_reference({"gru", attrs, {x, h, wi, wh}});
      expect_matches_reference({"gru", attrs, {x, h, wi, wh, std::nullopt, bh}});
      expect_matches_reference({"gru", attrs, {x, h, wi, wh, bi, bh}});
      KernelRun forward("gru", attrs, {&x, &h, &wi, &wh, &bi, &bh});
      ASSERT_TRUE(forward.bind());
      forward.run(1);
      expect_matches_reference({"gru_grad",
                                attrs,
                                {x, h, wi, wh, forward.outputs[0], forward.outputs[2],
                                 random_f32({time, batch, n}, 7), random_f32({batch, n}, 8)},
                                1e-4});
    }
  }
}

TEST(Attention, MatchesTheReference) {
  for (bool causal : {false, true}) {
    for (Shape mask : {Shape{}, {2, 1, 1, 70}, {70, 70}}) {
      const Shape shape = {2, 3, 70, 9};
      const ir::Attrs attrs = {{"causal", causal}, {"scale", 0.33}};
      TestTensor q = random_f32(shape), k = random_f32(shape, 2), v = random_f32({2, 3, 70, 12}, 3);
      std::optional<TestTensor> m;
      if (!mask.empty()) m = random_f32(mask, 4);
      expect_matches_reference({"attention", attrs, {q, k, v, m}});
      std::vector<TestTensor*> inputs = {&q, &k, &v};
      if (m) inputs.push_back(&*m);
      KernelRun forward("attention", attrs, inputs);
      ASSERT_TRUE(forward.bind());
      forward.run(1);
      expect_matches_reference(
          {"attention_grad",
           attrs,
           {q, k, v, m, forward.outputs[0], forward.outputs[1], random_f32({2, 3, 70, 12}, 5)},
           1e-4});
    }
  }
}

TEST(Embedding, MatchesTheReference) {
  for (int64_t padding : {-1, 3}) {
    const ir::Attrs attrs = {{"padding_index", padding}};
    expect_matches_reference({"embedding", attrs, {random_f32({50, 9}), random_i32({4, 30}, 50)}});
    expect_matches_reference({"embedding_grad",
                              {{"padding_index", padding}, {"rows", int64_t{50}}},
                              {random_f32({4, 30, 9}), random_i32({4, 30}, 50)}});
  }
}

TEST(Random, DrawsTheNumbersOfTheReference) {
  for (int64_t n : {1, 6, 37, 5000}) {
    expect_matches_reference({"dropout", {{"p", 0.3}}, {random_f32({n})}, 1e-6});
    expect_matches_reference({"dropout", {{"p", 1.0}}, {random_f32({n})}, 0});
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      expect_matches_reference(
          {"random_uniform",
           {{"shape", Ints{n}}, {"low", -1.0}, {"high", 3.0}, {"dtype", dtype}},
           {},
           0});
      expect_matches_reference({"random_normal",
                                {{"shape", Ints{n}}, {"mean", 1.0}, {"std", 2.0}, {"dtype", dtype}},
                                {},
                                0});
    }
  }
}

TEST(Embedding, RefusesAnIndexOutsideTheTable) {
  TestTensor w = random_f32({5, 3}), i = random_i32({1}, 2);
  *reinterpret_cast<int32_t*>(i.data.data()) = 5;
  KernelRun run("embedding", {}, {&w, &i});
  ASSERT_TRUE(run.bind());
  try {
    run.run(2);
    FAIL();
  } catch (const support::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("index 5 is outside a table of 5 rows"),
              std::string::npos);
  }
}

TEST(Move, MatchesTheReferenceForEveryElementSize) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI8, DType::kI64}) {
    auto tensor = [&](Shape shape, uint32_t seed) {
      return TestTensor(dtype, std::move(shape), -100, 100, seed);
    };
    for (const Ints& p : {Ints{0, 1, 2, 3}, {0, 2, 1, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}}) {
      expect_matches_reference({"transpose", {{"permutation", p}}, {tensor({3, 17, 5, 20}, 1)}, 0});
    }
    for (const Shape& shape : {Shape{90, 70}, Shape{200, 709}, Shape{709, 200}}) {
      expect_matches_reference({"transpose", {{"permutation", Ints{1, 0}}}, {tensor(shape, 1)}, 0});
    }
    expect_matches_reference({"broadcast_to", {{"shape", Ints{4, 5, 6}}}, {tensor({5, 1}, 1)}, 0});
    expect_matches_reference(
        {"slice",
         {{"starts", Ints{1, 0, 2}}, {"stops", Ints{5, 3, 9}}, {"steps", Ints{2, 1, 3}}},
         {tensor({6, 3, 9}, 1)},
         0});
    for (const Ints& axes : {Ints{0}, {1, 2}, {0, 2}, {}}) {
      expect_matches_reference({"reverse", {{"axes", axes}}, {tensor({6, 3, 9}, 1)}, 0});
    }
    expect_matches_reference(
        {"insert_slice",
         {{"starts", Ints{1, 0, 2}}, {"stops", Ints{5, 3, 9}}, {"steps", Ints{2, 1, 3}}},
         {tensor({6, 3, 9}, 1), tensor({2, 3, 3}, 2)},
         0});
    for (int64_t axis : {0, 1, 2}) {
      Shape a = {3, 4, 5}, b = a, c = a;
      b[axis] = 2, c[axis] = 7;
      expect_matches_reference(
          {"concat", {{"axis", axis}}, {tensor(a, 1), tensor(b, 2), tensor(c, 3)}, 0});
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
