// Products and convolutions with half partials against the reference: equal bits, but for
// attention, whose exp differs.
#include "conv_geometry.hpp"
#include "kernel_harness.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

using ir::Ints;
using ir::Shape;

constexpr double kExact = 0, kNear = 2e-3;

TestTensor halves(Shape shape, uint32_t seed) {
  return TestTensor(ir::DType::kF16, std::move(shape), -2, 2, seed);
}

ir::Attrs with_half_partials(ir::Attrs attrs) {
  attrs.set("partials", std::string("half"));
  return attrs;
}

TEST(HalfPartials, OfProductsMatchTheReference) {
  struct Size {
    int64_t m, n, k;
  };
  for (Size s : {Size{1, 8, 8}, {5, 19, 7}, {13, 130, 530}, {40, 33, 256}, {97, 17, 40}}) {
    for (int form = 0; form < 4; ++form) {
      const bool ta = form & 1, tb = form & 2;
      const TestTensor a = halves(ta ? Shape{s.k, s.m} : Shape{s.m, s.k}, 1);
      const TestTensor b = halves(tb ? Shape{s.n, s.k} : Shape{s.k, s.n}, 2);
      expect_matches_reference({"matmul",
                                with_half_partials({{"transpose_a", ta}, {"transpose_b", tb}}),
                                {a, b},
                                kExact});
    }
    expect_matches_reference({"linear",
                              with_half_partials({}),
                              {halves({s.m, s.k}, 1), halves({s.n, s.k}, 2), halves({s.n}, 3)},
                              kExact});
  }
}

TEST(HalfPartials, OfConvolutionsMatchTheReference) {
  for (const ConvGeometry& c : {ConvGeometry{3, 6, 8, 2, {5, 7}, {3, 2}, 2, 1, 1},
                                {2, 5, 4, 1, {9}, {4}, 3, 0, 2},
                                {2, 4, 4, 4, {6, 6}, {3, 3}, 1, 1, 1},
                                {1, 20, 5, 1, {3, 4, 5}, {2, 3, 1}, 2, 0, 1},
                                {2, 40, 33, 1, {8, 9}, {3, 3}, 1, 1, 1}}) {
    const ir::Attrs attrs = with_half_partials(c.attrs());
    auto with = [&](const char* name, const Ints& value) {
      ir::Attrs more = attrs;
      more.set(name, value);
      return more;
    };
    const TestTensor image = halves(c.image(), 1), kernel = halves(c.weight(), 2),
                     dy = halves(c.result(), 3);
    expect_matches_reference({"conv", attrs, {image, kernel, halves({c.out}, 4)}, kExact});
    expect_matches_reference(
        {"conv_grad_input", with("input_shape", c.image()), {dy, kernel}, kExact});
    expect_matches_reference(
        {"conv_grad_weight", with("weight_shape", c.weight()), {image, dy}, kExact});
    expect_matches_reference(
        {"conv_transpose", with("output_padding", Ints(c.size.size(), 0)), {dy, kernel}, kExact});
  }
}

TEST(HalfPartials, OfAttentionMatchTheReference) {
  Sample sample(4);
  for (int64_t queries : {2, 70}) {
    for (bool causal : {false, true}) {
      if (!sample.takes()) continue;
      const ir::Attrs attrs = with_half_partials({{"causal", causal}, {"scale", 0.33}});
      const TestTensor q = halves({2, 3, queries, 20}, 1), k = halves({2, 3, 70, 20}, 2),
                       v = halves({2, 3, 70, 12}, 3);
      expect_matches_reference({"attention", attrs, {q, k, v}, kNear});
      TestTensor operands[] = {q, k, v};
      KernelRun forward("attention", attrs, {&operands[0], &operands[1], &operands[2]});
      ASSERT_TRUE(forward.bind());
      forward.run(1);
      expect_matches_reference({"attention_grad",
                                attrs,
                                {q, k, v, std::nullopt, forward.outputs[0], forward.outputs[1],
                                 halves({2, 3, queries, 12}, 5)},
                                4 * kNear});
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
