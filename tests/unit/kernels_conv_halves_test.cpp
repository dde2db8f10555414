// Gradients of convolutions of one half type against the reference, with sums that are exact.
#include "half_harness.hpp"

namespace poptorch::emulator {
namespace {

using ir::Ints;
using ir::Shape;

// Whole numbers from -2 to 2: all sums of their products are whole numbers that float32 has.
TestTensor whole_halves(ir::DType dtype, Shape shape, uint32_t seed) {
  TestTensor x(dtype, std::move(shape), -1, 1, seed);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    halves(x)[i] = narrowed(dtype, static_cast<float>(random() % 5) - 2);
  }
  return x;
}

struct HalfGeometry {
  int64_t batch, in, out, groups;
  Shape size, kernel;
  int64_t stride, padding, dilation;
};

// Channels on both sides of those from which matrices of bfloat16 repay, even and odd.
TEST(ConvHalves, HaveTheGradientsOfTheReference) {
  for (const HalfGeometry& c : {HalfGeometry{2, 64, 64, 1, {6, 7}, {3, 3}, 1, 1, 1},
                                {2, 70, 66, 1, {9}, {4}, 1, 2, 2},
                                {1, 64, 65, 1, {5, 5}, {2, 3}, 1, 0, 1},
                                {1, 128, 130, 2, {3, 4, 5}, {2, 3, 1}, 1, 0, 1},
                                {3, 64, 96, 1, {7, 8}, {1, 1}, 1, 0, 1},
                                {2, 64, 72, 1, {9, 8}, {3, 3}, 2, 1, 1},
                                {40, 64, 64, 1, {5, 6}, {3, 2}, 1, 1, 1}}) {
    const size_t spatial = c.size.size();
    Shape x = {c.batch, c.in}, w = {c.out, c.in / c.groups}, y = {c.batch, c.out};
    for (size_t d = 0; d < spatial; ++d) {
      x.push_back(c.size[d]);
      w.push_back(c.kernel[d]);
      y.push_back((c.size[d] + 2 * c.padding - c.dilation * (c.kernel[d] - 1) - 1) / c.stride + 1);
    }
    ir::Attrs attrs = {{"strides", Ints(spatial, c.stride)},
                       {"padding", Ints(spatial, c.padding)},
                       {"dilation", Ints(spatial, c.dilation)},
                       {"groups", c.groups}};
    ir::Attrs of_input = attrs, of_weight = attrs;
    of_input.set("input_shape", x);
    of_weight.set("weight_shape", w);
    for (const ir::DType dtype : kHalfTypes) {
      const TestTensor image = whole_halves(dtype, x, 1), kernel = whole_halves(dtype, w, 2);
      const TestTensor dy = whole_halves(dtype, y, 3);
      expect_matches_reference({"conv_grad_input", of_input, {dy, kernel}, 0});
      expect_matches_reference({"conv_grad_weight", of_weight, {image, dy}, 0});
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
