// Convolutions and their gradients against loops from the definition.
#include "emulator/kernels/base/relayout.hpp"
#include "kernel_harness.hpp"

namespace poptorch::emulator {
namespace {

using ir::Ints;
using ir::Shape;

struct Geometry {
  int64_t batch, in, out, groups;
  Shape size, kernel;
  int64_t stride, padding, dilation;
};

TestTensor run_conv(const char* op, const Geometry& g, ir::Attrs more, const TestTensor& a,
                    const TestTensor& b, TestTensor* bias) {
  const size_t spatial = g.size.size();
  ir::Attrs attrs = {{"strides", Ints(spatial, g.stride)},
                     {"padding", Ints(spatial, g.padding)},
                     {"dilation", Ints(spatial, g.dilation)},
                     {"groups", g.groups}};
  for (const auto& [name, value] : more) attrs.set(name, value);
  TestTensor left = reordered(a, true), right = reordered(b, true);
  std::vector<TestTensor*> inputs = {&left, &right};
  if (std::string(op) == "conv") inputs.push_back(bias);
  KernelRun run(op, attrs, inputs);
  all_kernels().find(op)->choose_layouts(run.request);
  EXPECT_TRUE(run.bind());
  expect_deterministic(run);
  return reordered(run.outputs[0], false);
}

// Calls f(x element, w element, y element) for every product of the convolution.
template <typename F>
void for_products(const Geometry& g, const Shape& xs, const Shape& ws, const Shape& ys, F f) {
  const size_t spatial = g.size.size();
  const Shape xd = ir::row_major_strides(xs);
  const int64_t taps = ir::element_count(g.kernel), pixels = ir::element_count(ys) / ys[0] / ys[1];
  for (int64_t y = 0; y < ir::element_count(ys); ++y) {
    const int64_t pixel = y % pixels, oc = y / pixels % ys[1], n = y / pixels / ys[1];
    const int64_t group = oc / (ys[1] / g.groups);
    for (int64_t ic = 0; ic < ws[1]; ++ic) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t x = n * xd[0] + (group * ws[1] + ic) * xd[1], p = pixel, t = tap;
        bool inside = true;
        for (size_t d = spatial; d-- > 0;) {
          const int64_t at = p % ys[2 + d] * g.stride - g.padding + t % g.kernel[d] * g.dilation;
          inside &= at >= 0 && at < xs[2 + d];
          x += at * xd[2 + d];
          p /= ys[2 + d], t /= g.kernel[d];
        }
        if (inside) f(x, (oc * ws[1] + ic) * taps + tap, y);
      }
    }
  }
}

// One image, which oneDNN's primitives leave to products.
TEST(Conv, ReadsPanelsOfFixedWeightsFromMemory) {
  for (const Geometry& g : {Geometry{1, 24, 48, 1, {9, 10}, {3, 3}, 1, 1, 1},
                            {1, 40, 64, 1, {7, 7}, {1, 1}, 1, 0, 1},
                            {1, 8, 64, 2, {6, 5}, {3, 2}, 2, 1, 1},
                            {1, 300, 16, 1, {33}, {2}, 1, 0, 3}}) {
    const size_t spatial = g.size.size();
    Shape xs = {g.batch, g.in}, ws = {g.out, g.in / g.groups};
    xs.insert(xs.end(), g.size.begin(), g.size.end());
    ws.insert(ws.end(), g.kernel.begin(), g.kernel.end());
    const ir::Attrs attrs = {{"strides", Ints(spatial, g.stride)},
                             {"padding", Ints(spatial, g.padding)},
                             {"dilation", Ints(spatial, g.dilation)},
                             {"groups", g.groups}};
    TestTensor w = random_f32(ws, 2), x = reordered(random_f32(xs, 1), true);
    TestTensor last = reordered(w, true), panels(w.type), back(w.type);
    const KernelRow& row = *all_kernels().find("conv");
    KernelRun packing("conv", attrs, {&x, &last}), run("conv", attrs, {&x, &panels});
    row.choose_layouts(packing.request);
    ASSERT_TRUE(packing.bind());
    packing.run(1);
    run.request.input_fixed = {false, true};
    row.choose_layouts(run.request);
    const Layout layout = run.request.input_layouts[1];
    ASSERT_EQ(layout.kind, Layout::Kind::kPanelsOfRows);
    from_plain(layout, w.type, w.data.data(), panels.data.data());
    to_plain(layout, w.type, panels.data.data(), back.data.data());
    EXPECT_TRUE(back == w);
    ASSERT_TRUE(run.bind());
    EXPECT_EQ(run.kernel->workspace_bytes(), 0);
    expect_deterministic(run);
    EXPECT_TRUE(run.outputs[0] == packing.outputs[0]);
  }
}

// Compares with the reference, whose output padding is a range of zeros and bias.
TEST(ConvTranspose, MatchesTheReference) {
  const Geometry cases[] = {
      {3, 6, 8, 2, {5, 7}, {3, 2}, 2, 1, 1},   {2, 5, 4, 1, {9}, {4}, 3, 0, 2},
      {2, 4, 4, 4, {6, 6}, {3, 3}, 1, 1, 1},   {1, 3, 5, 1, {3, 4, 5}, {2, 3, 1}, 2, 0, 1},
      {8, 32, 16, 1, {8, 8}, {4, 4}, 2, 1, 1}, {2, 16, 32, 1, {9, 9}, {3, 3}, 1, 4, 1}};
  for (const Geometry& g : cases) {
    const size_t spatial = g.size.size();
    Shape x = {g.batch, g.in}, w = {g.in, g.out / g.groups};
    x.insert(x.end(), g.size.begin(), g.size.end());
    w.insert(w.end(), g.kernel.begin(), g.kernel.end());
    const ir::Attrs attrs = {{"strides", Ints(spatial, g.stride)},
                             {"padding", Ints(spatial, g.padding)},
                             {"dilation", Ints(spatial, g.dilation)},
                             {"output_padding", Ints(spatial, g.stride - 1)},
                             {"groups", g.groups}};
    const TestTensor from = random_f32(x, 1), with = random_f32(w, 2);
    for (bool channels_last : {false, true}) {
      expect_matches_reference({"conv_transpose", attrs, {from, with}, 1e-4, channels_last});
      expect_matches_reference(
          {"conv_transpose", attrs, {from, with, random_f32({g.out}, 3)}, 1e-4, channels_last});
    }
  }
}

class Conv : public testing::TestWithParam<Geometry> {};

TEST_P(Conv, AndItsGradientsMatchLoops) {
  const Geometry g = GetParam();
  Shape xs = {g.batch, g.in}, ws = {g.out, g.in / g.groups}, ys = {g.batch, g.out};
  for (size_t d = 0; d < g.size.size(); ++d) {
    xs.push_back(g.size[d]);
    ws.push_back(g.kernel[d]);
    ys.push_back((g.size[d] + 2 * g.padding - g.dilation * (g.kernel[d] - 1) - 1) / g.stride + 1);
  }
  TestTensor x = random_f32(xs, 1), w = random_f32(ws, 2), bias = random_f32({g.out}, 3);
  TestTensor dy = random_f32(ys, 4);
  std::vector<double> y(dy.type.elements()), dx(x.type.elements()), dw(w.type.elements());
  const int64_t pixels = dy.type.elements() / g.batch / g.out;
  for (size_t i = 0; i < y.size(); ++i) y[i] = bias.f32()[i / pixels % g.out];
  for_products(g, xs, ws, ys, [&](int64_t xi, int64_t wi, int64_t yi) {
    y[yi] += double(x.f32()[xi]) * w.f32()[wi];
    dx[xi] += double(dy.f32()[yi]) * w.f32()[wi];
    dw[wi] += double(dy.f32()[yi]) * x.f32()[xi];
  });
  auto expect_near = [](const TestTensor& got, const std::vector<double>& want, const char* what) {
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got.f32()[i], want[i], 1e-4 * std::max(1.0, std::abs(want[i]))) << what << i;
    }
  };
  expect_near(run_conv("conv", g, {}, x, w, &bias), y, "y ");
  expect_near(run_conv("conv_grad_input", g, {{"input_shape", Ints(xs)}}, dy, w, nullptr), dx,
              "dx ");
  expect_near(run_conv("conv_grad_weight", g, {{"weight_shape", Ints(ws)}}, x, dy, nullptr), dw,
              "dw ");
}

INSTANTIATE_TEST_SUITE_P(Geometries, Conv,
                         testing::Values(Geometry{2, 1, 8, 1, {9, 9}, {3, 3}, 1, 0, 1},
                                         Geometry{2, 3, 20, 1, {11, 9}, {7, 7}, 2, 3, 1},
                                         Geometry{3, 40, 33, 1, {6, 5}, {3, 3}, 1, 1, 1},
                                         Geometry{2, 18, 32, 1, {7, 7}, {1, 1}, 1, 0, 1},
                                         Geometry{2, 16, 24, 1, {8, 8}, {1, 1}, 2, 0, 1},
                                         Geometry{2, 8, 12, 4, {6, 6}, {3, 3}, 1, 1, 1},
                                         Geometry{2, 24, 24, 24, {7, 7}, {3, 3}, 2, 1, 1},
                                         Geometry{1, 10, 10, 10, {5, 6}, {3, 3}, 1, 1, 1},
                                         Geometry{2, 4, 6, 1, {12, 12}, {3, 3}, 1, 2, 2},
                                         Geometry{2, 4, 6, 1, {12, 12}, {3, 3}, 2, 0, 2},
                                         Geometry{2, 5, 7, 1, {20}, {5}, 1, 2, 1},
                                         Geometry{1, 3, 4, 1, {5, 6, 4}, {2, 3, 3}, 1, 1, 1},
                                         Geometry{16, 64, 64, 1, {6, 6}, {3, 3}, 1, 1, 1},
                                         Geometry{1, 4, 4, 1, {5, 5}, {1, 1}, 1, 1, 1},
                                         Geometry{3, 37, 1, 1, {9, 11}, {1, 1}, 1, 0, 1}));

// Large enough for oneDNN's kernels.
INSTANTIATE_TEST_SUITE_P(Batches, Conv,
                         testing::Values(Geometry{8, 32, 24, 1, {8, 8}, {3, 3}, 1, 1, 1},
                                         Geometry{6, 32, 40, 1, {16, 16}, {3, 3}, 2, 1, 1},
                                         Geometry{4, 3, 32, 1, {28, 28}, {7, 7}, 2, 3, 1},
                                         Geometry{8, 64, 72, 1, {8, 8}, {1, 1}, 1, 0, 1},
                                         Geometry{8, 64, 72, 1, {16, 16}, {1, 1}, 2, 0, 1},
                                         Geometry{4, 16, 17, 1, {12, 12}, {3, 3}, 1, 2, 2},
                                         Geometry{8, 32, 32, 1, {64}, {5}, 1, 2, 1},
                                         Geometry{8, 64, 64, 8, {12, 12}, {3, 3}, 1, 1, 1},
                                         Geometry{8, 32, 64, 4, {16, 16}, {3, 3}, 2, 1, 1},
                                         Geometry{6, 48, 48, 4, {80}, {5}, 1, 2, 1},
                                         Geometry{2, 16, 16, 8, {9, 11}, {3, 3}, 1, 1, 1},
                                         Geometry{3, 48, 48, 12, {12, 9}, {3, 3}, 2, 1, 1},
                                         Geometry{2, 32, 32, 8, {13, 7}, {3, 2}, 1, 2, 2},
                                         Geometry{2, 48, 48, 3, {10, 9}, {3, 3}, 1, 1, 1},
                                         Geometry{2, 64, 64, 2, {21}, {5}, 2, 2, 1},
                                         Geometry{4, 40, 40, 40, {11, 13}, {3, 5}, 1, 2, 1},
                                         Geometry{3, 33, 33, 33, {9, 14}, {3, 3}, 1, 3, 2},
                                         Geometry{3, 16, 16, 16, {9, 14}, {5, 3}, 3, 1, 1},
                                         Geometry{2, 16, 16, 1, {6, 6, 6}, {3, 3, 3}, 1, 1, 1},
                                         Geometry{2, 16, 24, 1, {8, 8, 8}, {3, 3, 3}, 1, 1, 1},
                                         Geometry{4, 16, 24, 1, {32, 34}, {3, 3}, 2, 1, 1},
                                         Geometry{3, 33, 40, 1, {300}, {5}, 1, 2, 2}));

}  // namespace
}  // namespace poptorch::emulator
