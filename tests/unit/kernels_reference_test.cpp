// Compares fast kernels with the reference kernels, one line per case.
#include "kernel_harness.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Ints;
using ir::Shape;

TEST(Reduce, MatchesTheReferenceOverAnyAxes) {
  for (const char* op : {"sum", "mean", "max", "min"}) {
    for (const Ints& axes : {Ints{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}, {}}) {
      for (bool keep : {false, true}) {
        expect_matches_reference(
            {op, {{"axes", axes}, {"keepdims", keep}}, {random_f32({7, 33, 70})}, 1e-5});
      }
    }
    expect_matches_reference({op, {{"axes", Ints{0}}}, {random_f32({5000, 33})}, 1e-5});
    expect_matches_reference({op, {{"axes", Ints{1}}}, {random_f32({3, 20000})}, 1e-5});
    expect_matches_reference({op, {{"axes", Ints{0, 1}}}, {random_f32({30, 3000})}, 1e-5});
    for (const Ints& axes : {Ints{0, 2, 3}, {2, 3}, {1}, {2}, {0, 1, 2, 3}}) {
      expect_matches_reference({op, {{"axes", axes}}, {random_f32({4, 24, 9, 7})}, 1e-5, true});
    }
  }
  expect_matches_reference({"prod", {{"axes", Ints{1}}}, {random_f32({20, 9})}});
}

TEST(Reduce, LetsNanWin) {
  TestTensor x = random_f32({3, 100});
  x.f32()[150] = NAN;
  for (const char* op : {"max", "min", "sum"}) {
    expect_matches_reference({op, {{"axes", Ints{1}}}, {x}});
    expect_matches_reference({op, {{"axes", Ints{0}}}, {x}});
  }
}

TEST(Softmax, MatchesTheReference) {
  for (Shape shape : {Shape{5}, {40, 10}, {3, 4, 129}, {2, 5000}}) {
    const int64_t axis = static_cast<int64_t>(shape.size()) - 1;
    for (const char* op : {"softmax", "log_softmax"}) {
      expect_matches_reference({op, {{"axis", axis}}, {random_f32(shape)}, 2e-6});
    }
    for (const char* op : {"softmax_grad", "log_softmax_grad"}) {
      expect_matches_reference(
          {op, {{"axis", axis}}, {random_f32(shape), random_f32(shape, 2)}, 1e-4});
    }
  }
}

TEST(Points, MatchTheReference) {
  for (const int64_t dimensions : {1, 3, 16}) {
    const TestTensor x = random_f32({70, dimensions}), y = random_f32({333, dimensions}, 2);
    expect_matches_reference({"nearest_points", {}, {x, y, std::nullopt, std::nullopt}});
    expect_matches_reference(
        {"nearest_points", {}, {x, y, random_i32({70}, 2), random_i32({333}, 2, 3)}});
    const ir::Attrs groups = {{"borders", Ints{0, 100, 100, 333}}, {"counts", Ints{40, 0, 233}}};
    expect_matches_reference({"farthest_points", groups, {y, random_i32({3}, 50)}});
    const TestTensor half(DType::kF16, {70, dimensions}, -1, 1, 4);
    expect_matches_reference({"nearest_points", {}, {half, half, std::nullopt, std::nullopt}});
  }
}

TEST(BeamSearch, MatchesTheReference) {
  for (const int64_t width : {1, 5, 30}) {
    const ir::Attrs attrs = {
        {"blank", int64_t{2}}, {"beam_width", width}, {"top_paths", std::min<int64_t>(width, 4)}};
    expect_matches_reference(
        {"ctc_beam_search", attrs, {random_f32({12, 7, 6}), random_i32({7}, 13)}, 1e-6});
  }
}

TEST(Loss, MatchesTheReference) {
  for (const char* reduction : {"mean", "sum", "none"}) {
    TestTensor target = random_i32({50}, 10),
               dloss = random_f32(std::string(reduction) == "none" ? Shape{50} : Shape{});
    reinterpret_cast<int32_t*>(target.data.data())[7] = -100;
    const ir::Attrs attrs = {{"reduction", std::string(reduction)}};
    const TestTensor scores = random_f32({50, 10});
    expect_matches_reference({"softmax_cross_entropy", attrs, {scores, target, std::nullopt}});
    expect_matches_reference({"nll_loss", attrs, {scores, target, std::nullopt}});
    expect_matches_reference(
        {"softmax_cross_entropy_grad", attrs, {scores, target, std::nullopt, dloss}});
    expect_matches_reference({"nll_loss_grad", attrs, {scores, target, std::nullopt, dloss}});
  }
}

TEST(Loss, OfAnyKindMatchesTheReference) {
  for (const auto& [scores, places] :
       {std::pair<Shape, Shape>{{50, 10}, {50}}, {{3, 10, 9, 11}, {3, 9, 11}}, {{10}, {}}}) {
    for (const char* reduction : {"mean", "sum", "none"}) {
      const TestTensor x = random_f32(scores), y = random_f32(scores, 4),
                       weight(DType::kF32, {10}, 0.5, 2, 5);
      TestTensor target = random_i32(places, 10),
                 dloss = random_f32(std::string(reduction) == "none" ? places : Shape{});
      if (places.size() > 0) reinterpret_cast<int32_t*>(target.data.data())[7] = -100;
      for (const auto& weights : {std::optional(weight), std::optional<TestTensor>()}) {
        const ir::Attrs attrs = {{"reduction", std::string(reduction)}};
        expect_matches_reference({"nll_loss", attrs, {x, target, weights}});
        expect_matches_reference({"nll_loss_grad", attrs, {y, target, weights, dloss}});
        for (double smoothing : {0.0, 0.2}) {
          ir::Attrs smooth = attrs;
          smooth.set("label_smoothing", smoothing);
          expect_matches_reference({"softmax_cross_entropy", smooth, {x, target, weights}});
          expect_matches_reference(
              {"softmax_cross_entropy_grad", smooth, {y, target, weights, dloss}});
        }
      }
    }
  }
}

struct PoolCase {
  Shape x;
  Ints kernel, strides, padding, dilation;
  bool ceil = false;
};

// Returns windows over images of one to three dimensions. Some windows are one element along the
// last dimensions.
PoolCase random_pool(std::mt19937& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  const Ints channels = {1, 1, 2, 3, 5, 7, 8, 20, 70};
  PoolCase p{};
  p.x = {1 + below(2), channels[below(9)]};
  p.ceil = below(2) == 1;
  const int64_t dims = 1 + below(3), joined = below(3) == 0 ? below(dims) : 0;
  for (int64_t d = 0; d < dims; ++d) {
    const bool single = d >= dims - joined;
    const int64_t kernel = single ? 1 : 1 + below(4), dilation = 1 + below(2);
    p.kernel.push_back(kernel);
    p.strides.push_back(single ? 1 : 1 + below(3));
    p.padding.push_back(below(kernel / 2 + 1));
    p.dilation.push_back(dilation);
    p.x.push_back((kernel - 1) * dilation + 1 + below(d + 1 == dims ? 40 : 6));
  }
  return p;
}

TestTensor made_by_reference(const char* op, const ir::Attrs& attrs, TestTensor& x) {
  KernelRun forward(op, attrs, {&x});
  run_reference(forward, attrs);
  return forward.outputs[0];
}

void expect_pools_match(const PoolCase& p, bool with_nan) {
  ir::Attrs attrs = {
      {"kernel", p.kernel}, {"strides", p.strides}, {"padding", p.padding}, {"ceil_mode", p.ceil}};
  ir::Attrs with_dilation = attrs;
  with_dilation.set("dilation", p.dilation);
  // Few different values: for ties the first place must be chosen.
  TestTensor x = random_f32(p.x);
  for (int64_t i = 0; i < x.type.elements(); ++i) x.f32()[i] = std::round(3 * x.f32()[i]);
  if (with_nan) x.f32()[x.type.elements() / 2] = NAN;
  TestTensor y = made_by_reference("max_pool", with_dilation, x);
  expect_matches_reference({"max_pool", with_dilation, {x}, 1e-6, true});
  expect_matches_reference(
      {"max_pool_grad", with_dilation, {x, y, random_f32(y.type.shape, 3)}, 1e-5, true});
  for (bool include : {false, true}) {
    attrs.set("count_include_pad", include);
    expect_matches_reference({"avg_pool", attrs, {x}, 1e-5, true});
    ir::Attrs grad = attrs;
    grad.set("input_shape", Ints(p.x));
    const TestTensor mean = made_by_reference("avg_pool", attrs, x);
    expect_matches_reference({"avg_pool_grad", grad, {random_f32(mean.type.shape, 3)}, 1e-5, true});
  }
}

TEST(Pooling, MatchesTheReference) {
  for (const PoolCase& p :
       {PoolCase{{2, 20, 8, 8}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false},
        PoolCase{{3, 5, 9, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
        PoolCase{{1, 70, 7, 7}, {2, 2}, {3, 3}, {0, 0}, {1, 1}, true},
        PoolCase{{2, 4, 17}, {3}, {2}, {0}, {1}, false},
        PoolCase{{1, 3, 5, 6, 7}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, false}}) {
    expect_pools_match(p, false);
  }
}

TEST(Pooling, RandomWindowsMatchTheReference) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const PoolCase p = random_pool(random);
    SCOPED_TRACE("case " + std::to_string(i));
    expect_pools_match(p, i % 8 == 0);
  }
}

}  // namespace
}  // namespace poptorch::emulator
