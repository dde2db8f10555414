// Gradients of convolutions of one half type against the reference, with sums that are exact.
#include "conv_geometry.hpp"
#include "half_harness.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

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

// Channels on both sides of those from which matrices of bfloat16 repay, even and odd, and few.
TEST(ConvHalves, HaveTheGradientsOfTheReference) {
  Sample sample(4);
  for (const ConvGeometry& c : {ConvGeometry{2, 64, 64, 1, {6, 7}, {3, 3}, 1, 1, 1},
                                {2, 70, 66, 1, {9}, {4}, 1, 2, 2},
                                {1, 64, 65, 1, {5, 5}, {2, 3}, 1, 0, 1},
                                {1, 128, 130, 2, {3, 4, 5}, {2, 3, 1}, 1, 0, 1},
                                {3, 64, 96, 1, {7, 8}, {1, 1}, 1, 0, 1},
                                {2, 64, 72, 1, {9, 8}, {3, 3}, 2, 1, 1},
                                {40, 64, 64, 1, {5, 6}, {3, 2}, 1, 1, 1},
                                {2, 1, 8, 1, {9, 11}, {3, 3}, 1, 1, 1},
                                {2, 6, 10, 2, {7, 9}, {3, 3}, 1, 1, 1},
                                {3, 5, 7, 1, {19}, {3}, 1, 2, 2},
                                {2, 3, 12, 1, {8, 13}, {3, 3}, 2, 1, 1}}) {
    const Shape x = c.image(), w = c.weight();
    ir::Attrs of_input = c.attrs(), of_weight = c.attrs();
    of_input.set("input_shape", x);
    of_weight.set("weight_shape", w);
    for (const ir::DType dtype : kHalfTypes) {
      if (!sample.takes()) continue;
      const TestTensor image = whole_halves(dtype, x, 1), kernel = whole_halves(dtype, w, 2);
      const TestTensor dy = whole_halves(dtype, c.result(), 3);
      expect_matches_reference({"conv_grad_input", of_input, {dy, kernel}, 0});
      expect_matches_reference({"conv_grad_weight", of_weight, {image, dy}, 0});
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
