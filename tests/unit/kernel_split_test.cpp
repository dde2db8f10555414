// Products of floats and bfloat16, where floats are sums of three bfloat16: their errors do not
// exceed those of the loops on floats, they have the same bits however they are divided, and rows
// and panels whose parts are not exact are multiplied as floats.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

struct SplitSize {
  int64_t m, n, k;
};
// The edges of 16 and 32 rows, columns and positions, of 96 rows and of 256 positions.
const SplitSize kSplitSizes[] = {{1, 16, 32},  {17, 31, 33}, {33, 48, 64},
                                 {40, 64, 47}, {97, 33, 40}, {20, 70, 290}};

// Numbers of widely varying magnitude. One in `specials` is special: infinite, NaN, denormal, or
// close to the limits of what is split.
Floats split_numbers(int64_t elements, unsigned seed, unsigned specials) {
  constexpr float kSpecials[] = {std::numeric_limits<float>::infinity(),  1e-40f, 0.0f,  -0.0f,
                                 std::numeric_limits<float>::quiet_NaN(), 3e38f,  1e-31f};
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> exponent(-8, 7);
  Floats values = random_floats(elements, seed);
  for (float& x : values) {
    x = std::ldexp(x, exponent(random));
    if (specials > 0 && random() % specials == 0) x = kSpecials[random() % std::size(kSpecials)];
  }
  return values;
}

struct SplitOperands {
  Floats a, b;  // b has values of bfloat16
  std::vector<uint16_t> halves;

  SplitOperands(SplitSize s, unsigned of_a, unsigned of_b)
      : a(split_numbers(s.m * s.k, 1, of_a)), b(split_numbers(s.k * s.n, 2, of_b)) {
    for (float& x : b) {
      halves.push_back(support::to_bfloat16(x));
      x = support::from_bfloat16(halves.back());
    }
  }
};

Floats split_product(const GemmRoutines& routines, SplitSize s, const SplitOperands& x, bool split,
                     int64_t rows, int64_t columns) {
  Floats c(s.m * s.n), scratch(gemm_scratch_floats(s.m, s.k));
  std::vector<uint16_t> packed(packed_floats(s.k, s.n));
  routines.pack({x.halves.data(), s.n, 1, Element::kBfloat}, s.k, s.n, 0,
                (s.n + kPanel - 1) / kPanel, packed.data(), s.k);
  for (int64_t i = 0; i < s.m; i += rows) {
    for (int64_t j = 0; j < s.n; j += columns) {
      routines.packed(std::min(rows, s.m - i), std::min(columns, s.n - j), s.k,
                      OperandView(x.a.data() + i * s.k, s.k, 1), packed.data() + j * s.k, s.k,
                      nullptr, c.data() + i * s.n + j, s.n, false, scratch.data(), Element::kBfloat,
                      nullptr, nullptr, split);
    }
  }
  return c;
}

double greatest_error(const Floats& c, SplitSize s, const SplitOperands& x) {
  double greatest = 0;
  for (int64_t i = 0; i < s.m * s.n; ++i) {
    double sum = 0, magnitude = 0;
    for (int64_t p = 0; p < s.k; ++p) {
      const double product = double{x.a[i / s.n * s.k + p]} * x.b[p * s.n + i % s.n];
      sum += product, magnitude += std::abs(product);
    }
    greatest = std::max(greatest, std::abs(c[i] - sum) / magnitude);
  }
  return greatest;
}

TEST(KernelSplit, HasNoLargerErrorsThanFloats) {
  for (const KernelSet* set : host_kernel_sets()) {
    for (SplitSize s : {SplitSize{100, 96, 64}, {96, 130, 256}, {64, 64, 1000}}) {
      const SplitOperands x(s, 0, 0);
      const Floats floats = split_product(set->gemm, s, x, false, s.m, s.n);
      const Floats split = split_product(set->gemm, s, x, true, s.m, s.n);
      EXPECT_LE(greatest_error(split, s, x), greatest_error(floats, s, x))
          << set->name << ' ' << s.m << 'x' << s.n << 'x' << s.k;
    }
  }
}

TEST(KernelSplit, MultipliesSpecialNumbersAsFloats) {
  for (const KernelSet* set : host_kernel_sets()) {
    for (SplitSize s : kSplitSizes) {
      for (unsigned specials : {40, 400}) {
        for (bool left : {false, true}) {
          const SplitOperands x(s, left ? specials : 0, left ? 0 : specials);
          const Floats floats = split_product(set->gemm, s, x, false, s.m, s.n);
          const Floats split = split_product(set->gemm, s, x, true, s.m, s.n);
          for (size_t i = 0; i < floats.size(); ++i) {
            if (std::isnan(floats[i])) {
              ASSERT_TRUE(std::isnan(split[i])) << set->name << ' ' << i;
            } else if (std::isinf(floats[i]) || std::abs(floats[i]) > 1e30f) {
              ASSERT_EQ(split[i], floats[i]) << set->name << ' ' << i;
            }
          }
        }
      }
    }
  }
}

TEST(KernelSplit, HasTheSameBitsInAnyDivision) {
  constexpr SplitSize kSize = {101, 117, 330};
  for (const KernelSet* set : host_kernel_sets()) {
    for (unsigned of_a : {0, 900}) {
      const SplitOperands x(kSize, of_a, of_a == 0 ? 900 : 0);
      const Floats whole = split_product(set->gemm, kSize, x, true, kSize.m, kSize.n);
      for (int64_t rows : {1, 7, 16, 37}) {
        for (int64_t columns : {kPanel, 5 * kPanel}) {
          const Floats divided = split_product(set->gemm, kSize, x, true, rows, columns);
          EXPECT_EQ(std::memcmp(divided.data(), whole.data(), whole.size() * sizeof(float)), 0)
              << set->name << ' ' << rows << ' ' << columns;
        }
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
