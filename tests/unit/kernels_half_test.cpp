// Products of halves, which read them from memory: bit-identical to the float kernels on widened
// operands, rounded once.
#include "half_harness.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Shape;

struct HalfProduct {
  int64_t m, n, k;
};
const HalfProduct kProducts[] = {{1, 8, 8},     {5, 19, 7},    {8, 130, 300}, {1, 70, 65},
                                 {33, 70, 260}, {200, 40, 96}, {130, 100, 9}, {7, 1, 64},
                                 {97, 33, 530}, {1, 1, 1},     {24, 65, 129}, {60, 17, 40}};

// Sets that multiply pairs of bfloat16 sum dot products in another order than those of floats; sets
// that multiply matrices sum all of them so, and float16 by its parts. Where products cancel each
// other, the sums of `k` of them then differ by more units of a half: error_of() bounds that.
int units_of(DType dtype, bool dots) {
  const GemmRoutines& gemm = kernel_set().gemm;
  if (gemm.multiplies_matrices) return 1;
  return dtype == DType::kBF16 && dots && gemm.multiplies_pairs ? 1 : 0;
}

float error_of(int64_t k) {
  return kernel_set().gemm.multiplies_matrices ? 0x1p-23f * static_cast<float>(k) : 0;
}

void expect_product(const char* op, const ir::Attrs& attrs, std::vector<TestTensor> inputs,
                    int units, float error) {
  std::vector<TestTensor> wide;
  for (const TestTensor& x : inputs) wide.push_back(widened(x));
  std::vector<TestTensor*> given, floats;
  for (TestTensor& x : inputs) given.push_back(&x);
  for (TestTensor& x : wide) floats.push_back(&x);
  KernelRun run(op, attrs, given), oracle(op, attrs, floats);
  ASSERT_TRUE(run.bind() && oracle.bind());
  expect_deterministic(run);
  oracle.run(1);
  expect_rounded(run.outputs[0], oracle.outputs[0], units, error);
}

TEST(HalfProducts, AreTheFloatProductsRoundedOnce) {
  Sample sample(12);
  uint32_t seed = 1;
  for (DType dtype : kHalfTypes) {
    for (HalfProduct s : kProducts) {
      for (int form = 0; form < 8; ++form) {
        if (!sample.takes()) continue;
        SCOPED_TRACE(testing::Message() << s.m << "x" << s.n << "x" << s.k << " form " << form);
        const bool ta = form & 1, tb = form & 2, special = form & 4;
        const Shape a = ta ? Shape{s.k, s.m} : Shape{s.m, s.k};
        const Shape b = tb ? Shape{s.n, s.k} : Shape{s.k, s.n};
        expect_product(
            "matmul", {{"transpose_a", ta}, {"transpose_b", tb}},
            {random_halves(dtype, a, ++seed, special), random_halves(dtype, b, ++seed, special)},
            units_of(dtype, tb && !ta), error_of(s.k));
      }
    }
  }
}

TEST(HalfProducts, AddTheirBias) {
  for (DType dtype : kHalfTypes) {
    for (HalfProduct s : kProducts) {
      expect_product(
          "linear", {},
          {random_halves(dtype, {s.m, s.k}, 1, false), random_halves(dtype, {s.n, s.k}, 2, false),
           random_halves(dtype, {s.n}, 3, false)},
          units_of(dtype, true), error_of(s.k));
    }
  }
}

TEST(HalfProducts, BroadcastBatches) {
  for (DType dtype : kHalfTypes) {
    for (int64_t rows : {3, 40}) {
      expect_product("matmul", {},
                     {random_halves(dtype, {3, 1, rows, 50}, 1, false),
                      random_halves(dtype, {2, 50, 33}, 2, false)},
                     units_of(dtype, false), error_of(50));
    }
  }
}

struct HalfConv {
  int64_t batch, in, out, groups;
  Shape size, kernel;
  int64_t stride, padding, dilation;
};
const HalfConv kConvs[] = {{1, 3, 20, 1, {11, 9}, {3, 3}, 2, 1, 1},
                           {1, 24, 40, 1, {6, 5}, {1, 1}, 1, 0, 1},
                           {2, 70, 33, 1, {7, 7}, {1, 1}, 1, 0, 1},
                           {1, 30, 280, 1, {12, 11}, {1, 1}, 1, 0, 1},
                           {1, 16, 24, 1, {8, 8}, {1, 1}, 2, 0, 1},
                           {2, 8, 12, 4, {6, 6}, {3, 3}, 1, 1, 1},
                           {1, 8, 8, 2, {9}, {1}, 1, 0, 1},
                           {2, 37, 37, 37, {9, 14}, {3, 3}, 1, 1, 1},
                           {1, 96, 96, 96, {7, 9}, {3, 3}, 2, 1, 1},
                           {3, 16, 16, 16, {9, 14}, {5, 3}, 1, 2, 2},
                           {1, 3, 4, 1, {5, 6, 4}, {2, 3, 3}, 1, 1, 1}};

// Computes an output as eager torch does for float16, with `sums` partial sums. The single sum of a
// channel with its own kernel begins at the bias.
float conv_at(const HalfConv& g, const TestTensor& x, const TestTensor& w, const TestTensor& bias,
              const Shape& ys, int64_t y, int64_t sums) {
  const size_t spatial = g.size.size();
  const int64_t taps = ir::element_count(g.kernel), pixels = ir::element_count(ys) / ys[0] / ys[1];
  const int64_t channels = g.in / g.groups, depth = channels * taps, whole = depth / sums * sums;
  const int64_t out = y / pixels % g.out, group = out / (g.out / g.groups);
  std::vector<float> partial(sums);
  const bool begins = sums == 1 && g.groups == g.in && g.groups == g.out;
  if (begins) partial[0] = bias.f32()[out];
  for (int64_t k = 0; k < depth; ++k) {
    // A single sum takes the channels of one kernel position after another.
    const int64_t channel = sums == 1 ? k % channels : k / taps;
    const int64_t tap = sums == 1 ? k / channels : k % taps;
    int64_t rest = y % pixels, of_tap = tap, at = 0, step = 1;
    bool inside = true;
    for (size_t d = spatial; d-- > 0;) {
      const int64_t i = rest % ys[2 + d] * g.stride - g.padding + of_tap % g.kernel[d] * g.dilation;
      inside &= i >= 0 && i < g.size[d];
      at += i * step, step *= g.size[d];
      rest /= ys[2 + d], of_tap /= g.kernel[d];
    }
    if (!inside) continue;
    const int64_t image = y / pixels / g.out * g.in + group * channels + channel;
    float& sum = partial[k < whole ? k % sums : 0];
    sum =
        std::fma(x.f32()[image * step + at], w.f32()[(out * channels + channel) * taps + tap], sum);
  }
  float total = partial[0];
  for (int64_t i = 1; i < sums; ++i) total += partial[i];
  return begins ? total : bias.f32()[out] + total;
}

TEST(HalfConvolutions, SumInEagerTorchsOrderOrInOrderOfPositions) {
  for (DType dtype : kHalfTypes) {
    for (const HalfConv& g : kConvs) {
      const size_t spatial = g.size.size();
      Shape xs = {g.batch, g.in}, ws = {g.out, g.in / g.groups};
      xs.insert(xs.end(), g.size.begin(), g.size.end());
      ws.insert(ws.end(), g.kernel.begin(), g.kernel.end());
      const TestTensor x = random_halves(dtype, xs, 1, false),
                       w = random_halves(dtype, ws, 2, false);
      TestTensor bias = random_halves(dtype, {g.out}, 3, false);
      TestTensor left = reordered(x, true), right = reordered(w, true);
      KernelRun run("conv",
                    {{"strides", ir::Ints(spatial, g.stride)},
                     {"padding", ir::Ints(spatial, g.padding)},
                     {"dilation", ir::Ints(spatial, g.dilation)},
                     {"groups", g.groups}},
                    {&left, &right, &bias});
      all_kernels().find("conv")->choose_layouts(run.request);
      ASSERT_TRUE(run.bind());
      expect_deterministic(run);
      const TestTensor got = reordered(run.outputs[0], false);
      TestTensor want({DType::kF32, got.type.shape});
      const TestTensor wide_x = widened(x), wide_w = widened(w), wide_bias = widened(bias);
      const int64_t sums = dtype == DType::kF16 ? 4 : 1;
      for (int64_t i = 0; i < want.type.elements(); ++i) {
        want.f32()[i] = conv_at(g, wide_x, wide_w, wide_bias, got.type.shape, i, sums);
      }
      SCOPED_TRACE(testing::Message() << ir::shape_text(xs) << " " << ir::shape_text(ws));
      expect_rounded(got, want);
    }
  }
}

// A causal mask, one of the keys, one of queries and keys; and so few queries that nothing is
// packed.
std::vector<TestTensor> attention_operands(DType dtype, int64_t queries, const Shape& mask,
                                           bool special) {
  std::vector<TestTensor> operands{random_halves(dtype, {2, 3, queries, 9}, 1, special),
                                   random_halves(dtype, {2, 3, 70, 9}, 2, false),
                                   random_halves(dtype, {2, 3, 70, 12}, 3, false)};
  if (!mask.empty()) operands.push_back(random_halves(dtype, mask, 4, false));
  return operands;
}

// Runs `op` on halves and on the same floats; every result must be the float one, rounded.
std::vector<TestTensor> expect_results(const char* op, const ir::Attrs& attrs,
                                       std::vector<TestTensor*> given) {
  std::vector<TestTensor> wide;
  for (const TestTensor* x : given) wide.push_back(x ? widened(*x) : TestTensor({DType::kF32, {}}));
  std::vector<TestTensor*> floats;
  for (size_t i = 0; i < given.size(); ++i) floats.push_back(given[i] ? &wide[i] : nullptr);
  KernelRun run(op, attrs, given), oracle(op, attrs, floats);
  EXPECT_TRUE(run.bind() && oracle.bind());
  expect_deterministic(run);
  oracle.run(1);
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    expect_rounded(run.outputs[i], oracle.outputs[i]);
  }
  return run.outputs;
}

TEST(HalfAttention, IsTheFloatOneRoundedOnce) {
  Sample sample(4);
  for (DType dtype : kHalfTypes) {
    for (int64_t queries : {2, 70}) {
      for (const Shape& mask : {Shape{}, {2, 1, 1, 70}, {queries, 70}, {2, 1, queries, 1}}) {
        for (bool causal : {false, true}) {
          if (!sample.takes()) continue;
          SCOPED_TRACE(testing::Message() << queries << " queries, mask " << ir::shape_text(mask));
          const ir::Attrs attrs = {{"causal", causal}, {"scale", 0.33}};
          auto in = attention_operands(dtype, queries, mask, mask.empty() && !causal);
          TestTensor* m = mask.empty() ? nullptr : &in[3];
          auto out = expect_results("attention", attrs, {&in[0], &in[1], &in[2], m});
          TestTensor gradient = random_halves(dtype, {2, 3, queries, 12}, 5, false);
          expect_results("attention_grad", attrs,
                         {&in[0], &in[1], &in[2], m, &out[0], &out[1], &gradient});
        }
      }
    }
  }
}

// The state stays float32 from step to step. Products of bfloat16 may add in another order.
TEST(HalfRecurrent, IsTheFloatOneRoundedOnce) {
  for (DType dtype : kHalfTypes) {
    for (const bool lstm : {false, true}) {
      for (const Shape& x : {Shape{7, 5, 40}, Shape{3, 35, 9}}) {
        const int64_t hidden = 48, rows = (lstm ? 4 : 3) * hidden;
        std::vector<TestTensor> in = {random_halves(dtype, x, 1, false),
                                      random_halves(dtype, {x[1], hidden}, 2, false)};
        if (lstm) in.push_back(random_halves(dtype, {x[1], hidden}, 3, false));
        in.push_back(random_halves(dtype, {rows, x[2]}, 4, false));
        in.push_back(random_halves(dtype, {rows, hidden}, 5, false));
        in.push_back(random_halves(dtype, {rows}, 6, false));
        in.push_back(random_halves(dtype, {rows}, 7, false));
        std::vector<TestTensor> wide;
        for (const TestTensor& operand : in) wide.push_back(widened(operand));
        std::vector<TestTensor*> halves, floats;
        for (size_t i = 0; i < in.size(); ++i) halves.push_back(&in[i]), floats.push_back(&wide[i]);
        const char* op = lstm ? "lstm" : "gru";
        KernelRun run(op, {}, halves), oracle(op, {}, floats);
        ASSERT_TRUE(run.bind() && oracle.bind());
        expect_deterministic(run);
        oracle.run(1);
        for (size_t i = 0; i < run.outputs.size(); ++i) {
          SCOPED_TRACE(testing::Message() << op << " of " << ir::shape_text(x) << ", " << i);
          TestTensor& got = run.outputs[i];
          for (int64_t j = 0; j < got.type.elements(); ++j) {
            const float value = oracle.outputs[i].f32()[j];
            const float unit = dtype == DType::kF16 ? 0x1p-11f : 0x1p-8f;
            ASSERT_NEAR(got.at(j), value, unit * std::abs(value) + 1e-6f) << j;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
