// Tensors of halves for tests, and what kernels on floats make of them.
#pragma once

#include <limits>

#include "kernel_harness.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {

constexpr ir::DType kHalfTypes[] = {ir::DType::kF16, ir::DType::kBF16};

inline float widened(ir::DType dtype, uint16_t bits) {
  return dtype == ir::DType::kF16 ? support::from_half(bits) : support::from_bfloat16(bits);
}
inline uint16_t narrowed(ir::DType dtype, float value) {
  return dtype == ir::DType::kF16 ? support::to_half(value) : support::to_bfloat16(value);
}
inline uint16_t* halves(TestTensor& x) { return reinterpret_cast<uint16_t*>(x.data.data()); }

inline TestTensor widened(TestTensor x) {
  if (!ir::is_half(x.type.dtype)) return x;
  TestTensor wide({ir::DType::kF32, x.type.shape});
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    wide.f32()[i] = widened(x.type.dtype, halves(x)[i]);
  }
  return wide;
}

// Expects `got` to be `wide` rounded to its type, or at most `units` or `error` beside it; any NaN
// equals any other.
inline void expect_rounded(TestTensor got, const TestTensor& wide, int units = 0, float error = 0) {
  ASSERT_EQ(got.type.elements(), wide.type.elements());
  for (int64_t i = 0; i < got.type.elements(); ++i) {
    const float value = wide.f32()[i];
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(got.at(i))) << i;
    } else if (!ir::is_half(got.type.dtype)) {
      ASSERT_EQ(std::bit_cast<uint32_t>(got.f32()[i]), std::bit_cast<uint32_t>(value)) << i;
    } else if (error == 0 || !(std::abs(got.at(i) - value) <= error)) {
      const int distance = std::abs(halves(got)[i] - narrowed(got.type.dtype, value));
      ASSERT_LE(distance, units) << i << ": " << value << " and " << got.at(i);
    }
  }
}

inline TestTensor random_halves(ir::DType dtype, ir::Shape shape, uint32_t seed, bool special) {
  TestTensor x(dtype, std::move(shape), -1, 1, seed);
  if (!special) return x;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float values[] = {0.0f, -0.0f, kInfinity, -kInfinity, std::nanf(""), 6e-8f, 1e-40f, 6e4f};
  std::mt19937 random(seed);
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    if (random() % 40 == 0) halves(x)[i] = narrowed(dtype, values[random() % 8]);
  }
  return x;
}

}  // namespace poptorch::emulator
