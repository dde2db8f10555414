// Compares ops along axes, and padding, with the reference kernels.
#include "kernel_harness.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Ints;
using ir::Shape;

constexpr DType kNumbers[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32};

// Few values, so that there are ties.
TestTensor with_ties(DType dtype, Shape shape) {
  TestTensor x(dtype, std::move(shape), -6, 6, 3);
  for (int64_t i = 0; dtype == DType::kF32 && i < x.type.elements(); ++i) {
    x.f32()[i] = std::floor(x.f32()[i]);
  }
  return x;
}

TEST(AlongAxis, FindsAndOrdersAsTheReferenceDoes) {
  Sample sample(4);
  for (DType dtype : kNumbers) {
    for (int64_t axis : {0, 1, 2}) {
      if (!sample.takes()) continue;
      TestTensor x = with_ties(dtype, {9, 40, 21});
      if (dtype == DType::kF32) x.f32()[300] = x.f32()[4000] = NAN;
      for (const char* op : {"argmax", "argmin"}) {
        expect_matches_reference({op, {{"axis", axis}}, {x}, 0});
      }
      for (bool up : {false, true}) {
        expect_matches_reference({"sort", {{"axis", axis}, {"descending", up}}, {x}, 0});
        expect_matches_reference(
            {"topk", {{"axis", axis}, {"k", int64_t{5}}, {"largest", up}}, {x}, 0});
      }
    }
  }
}

// The more lines there are, the more of them advance at once.
TEST(AlongAxis, ScansManyLinesAsTheReferenceDoes) {
  for (const Shape& shape : {Shape{2, 5, 1100}, {3, 4, 2500}, {1, 3, 9000}}) {
    const TestTensor x(DType::kF32, shape, -1, 1, 3), factors(DType::kF32, shape, -1, 1, 4);
    expect_matches_reference({"cumsum", {{"axis", int64_t{1}}}, {x}, 1e-5});
    for (const bool reverse : {false, true}) {
      expect_matches_reference(
          {"linear_recurrence", {{"axis", int64_t{1}}, {"reverse", reverse}}, {factors, x}, 1e-5});
    }
  }
}

TEST(AlongAxis, ScansAndReducesAsTheReferenceDoes) {
  for (DType dtype : kNumbers) {
    const double tolerance = dtype == DType::kF16 ? 2e-3 : dtype == DType::kBF16 ? 1e-2 : 1e-5;
    const TestTensor x(dtype, {4, 30, 7}, 1, 2, 3);
    for (int64_t axis : {0, 1, 2}) {
      expect_matches_reference({"cumsum", {{"axis", axis}}, {x}, tolerance});
      expect_matches_reference({"cumprod", {{"axis", axis}}, {x}, tolerance});
      if (dtype == DType::kI32) continue;
      const TestTensor factors(dtype, {4, 30, 7}, -1, 1, 4);
      for (const bool reverse : {false, true}) {
        expect_matches_reference(
            {"linear_recurrence", {{"axis", axis}, {"reverse", reverse}}, {factors, x}, tolerance});
      }
    }
    for (const Ints& axes : {Ints{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}}) {
      if (dtype != DType::kI32) {
        expect_matches_reference({"logsumexp", {{"axes", axes}}, {x}, tolerance});
        continue;
      }
      for (const char* op : {"sum", "prod", "max", "min"}) {
        expect_matches_reference({op, {{"axes", axes}}, {with_ties(dtype, {4, 30, 7})}, 0});
      }
    }
  }
  for (DType dtype : {DType::kBool, DType::kI32, DType::kF32}) {
    TestTensor x(dtype, {40, 3, 5}, 0, 1.2, 3);
    for (const Ints& axes : {Ints{0}, {1}, {2}, {1, 2}}) {
      expect_matches_reference({"any", {{"axes", axes}}, {x}, 0});
      expect_matches_reference({"all", {{"axes", axes}}, {x}, 0});
    }
  }
}

TEST(AlongAxis, SoftmaxMatchesTheReference) {
  const Shape shape = {3, 19, 5, 7};
  for (DType dtype : {DType::kF32, DType::kF16}) {
    const double tolerance = dtype == DType::kF16 ? 4e-3 : 1e-5;
    const TestTensor x(dtype, shape, -2, 2, 1), dy(dtype, shape, -1, 1, 2);
    for (int64_t axis : {0, 1, 2}) {
      const ir::Attrs attrs = {{"axis", axis}};
      expect_matches_reference({"softmax", attrs, {x}, tolerance});
      expect_matches_reference({"log_softmax", attrs, {x}, tolerance});
      expect_matches_reference({"softmax_grad", attrs, {x, dy}, 10 * tolerance});
      expect_matches_reference({"log_softmax_grad", attrs, {x, dy}, 10 * tolerance});
    }
  }
}

TEST(GroupNorm, MatchesTheReference) {
  for (int64_t groups : {1, 2, 6}) {
    const TestTensor x = random_f32({4, 6, 5, 9}, 1), dy = random_f32({4, 6, 5, 9}, 2);
    const TestTensor weight = random_f32({6}, 3), bias = random_f32({6}, 4);
    const ir::Attrs attrs = {{"groups", groups}};
    expect_matches_reference({"group_norm", attrs, {x, weight, bias}});
    expect_matches_reference({"group_norm", attrs, {x}});
    const TestTensor mean = random_f32({4, groups}, 5);
    const TestTensor inv_std(DType::kF32, {4, groups}, 0.5, 2, 6);
    for (const auto& scale : {std::optional(weight), std::optional<TestTensor>()}) {
      expect_matches_reference({"group_norm_grad", attrs, {x, scale, mean, inv_std, dy}, 1e-4});
    }
  }
}

TEST(Pad, MatchesTheReference) {
  for (const char* mode : {"constant", "reflect", "replicate"}) {
    for (const Ints& high : {Ints{2, 3, 1}, {0, 0, 4}, {1, 0, 0}}) {
      const Ints low = {0, 2, 3};
      Shape padded = {5, 6, 7};
      for (size_t d = 0; d < 3; ++d) padded[d] += low[d] + high[d];
      ir::Attrs attrs = {{"low", low}, {"high", high}, {"mode", std::string(mode)}};
      expect_matches_reference({"pad_grad", attrs, {random_f32(padded, 1)}, 1e-5});
      attrs.set("value", 1.5);
      for (DType dtype : {DType::kF32, DType::kF16, DType::kI8, DType::kI64}) {
        const TestTensor x(dtype, {5, 6, 7}, -100, 100, 1);
        expect_matches_reference({"pad", attrs, {x}, 0});
      }
    }
  }
}

TEST(OneHot, MatchesTheReference) {
  const TestTensor indices(DType::kI32, {40, 3}, -1.9, 10.9, 1);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI32, DType::kBool}) {
    expect_matches_reference(
        {"one_hot", {{"classes", int64_t{10}}, {"dtype", dtype}}, {indices}, 0});
  }
}

}  // namespace
}  // namespace poptorch::emulator
