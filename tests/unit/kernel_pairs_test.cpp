// Products of pairs of bfloat16 have the bits of products of floats, and products of matrices have
// the same bits however they are divided. Denormals, which the instructions take as zeros, are
// found.
#include <cmath>
#include <limits>
#include <random>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"
#include "sample.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

struct PairSize {
  int64_t m, n, k;
};
const PairSize kPairSizes[] = {{1, 1, 1},    {1, 16, 5},    {8, 512, 784},  {5, 17, 10},
                               {13, 33, 66}, {25, 15, 300}, {96, 100, 258}, {7, 8, 33},
                               {3, 150, 70}, {4, 75, 129}};

constexpr float kGreatest = std::numeric_limits<float>::infinity();
constexpr double kGreatestSum = std::numeric_limits<float>::max();
const float kBfloatSpecials[] = {1e-40f,    -3e-39f,       0.0f,  -0.0f,
                                 kGreatest, std::nanf(""), 1e38f, -2e-30f};

// A matrix of bfloat16, and the same numbers as floats.
struct BfloatMatrix {
  std::vector<uint16_t> halves;
  Floats floats;

  // Random numbers times `scale`. One in fifty is among the first `specials` of kBfloatSpecials.
  BfloatMatrix(int64_t elements, unsigned seed, unsigned specials, float scale) {
    std::mt19937 random(seed);
    for (float value : random_floats(elements, seed)) {
      value *= scale;
      if (specials > 0 && random() % 50 == 0) value = kBfloatSpecials[random() % specials];
      halves.push_back(support::to_bfloat16(value));
      floats.push_back(support::from_bfloat16(halves.back()));
    }
  }
  OperandView view(bool of_floats, int64_t row, int64_t col) const {
    if (of_floats) return {floats.data(), row, col};
    return {halves.data(), row, col, Element::kBfloat};
  }
};

Floats pair_product(const GemmRoutines& routines, PairSize s, char route, const OperandView& a,
                    const OperandView& b) {
  Floats c(s.m * s.n), scratch(gemm_scratch_floats(s.m, s.k));
  if (route == 'r') routines.rows(s.m, s.n, s.k, a, b, nullptr, c.data(), s.n);
  if (route == 'd') routines.dots(s.m, s.n, s.k, a, b, nullptr, c.data(), s.n);
  if (route != 'p') return c;
  std::vector<std::byte> packed(packed_floats(s.k, s.n) * element_bytes(b.element));
  routines.pack(b, s.k, s.n, 0, (s.n + kPanel - 1) / kPanel, packed.data(), s.k);
  routines.packed(s.m, s.n, s.k, a, packed.data(), s.k, nullptr, c.data(), s.n, false,
                  scratch.data(), b.element, nullptr, nullptr, false);
  return c;
}

// Returns the sum of the magnitudes of the products of element (i, j).
double magnitude(const MatrixView& a, const MatrixView& b, int64_t k, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t p = 0; p < k; ++p) {
    sum += std::abs(double{*a.from(i, p).data} * *b.from(p, j).data);
  }
  return sum;
}

void expect_pair_product(const KernelSet& set, PairSize s, const BfloatMatrix& a,
                         const BfloatMatrix& b) {
  const KernelSet& floats = *host_kernel_sets()[0];
  for (char route : {'r', 'd', 'p'}) {
    for (bool columns : {false, true}) {
      if (route == 'd' && columns) continue;
      const auto left = [&](bool of_floats) {
        return a.view(of_floats, columns ? 1 : s.k, columns ? s.m : 1);
      };
      const auto right = [&](bool of_floats) {
        return b.view(of_floats, route == 'd' ? 1 : s.n, route == 'd' ? s.k : 1);
      };
      const Floats got = pair_product(set.gemm, s, route, left(false), right(false));
      const Floats want = pair_product(floats.gemm, s, route, left(true), right(true));
      SCOPED_TRACE(testing::Message() << s.m << "x" << s.n << "x" << s.k << " by " << route
                                      << ", columns " << columns);
      const bool other_order = route == 'd' || (route == 'p' && set.gemm.multiplies_matrices);
      for (int64_t i = 0; i < s.m * s.n; ++i) {
        const double most = other_order ? magnitude(left(true).floats(), right(true).floats(), s.k,
                                                    i / s.n, i % s.n)
                                        : 0;
        if (std::isnan(want[i])) {
          ASSERT_TRUE(std::isnan(got[i])) << i;
        } else if (!other_order || std::isinf(most)) {
          ASSERT_EQ(got[i], want[i]) << i;
        } else if (most < kGreatestSum) {  // in another order, greater ones may overflow
          ASSERT_NEAR(got[i], want[i], 1e-6 * most) << i;
        }
      }
    }
  }
}

TEST(KernelPairs, HaveTheBitsOfFloats) {
  Sample sample(4);
  for (const KernelSet* set : host_kernel_sets()) {
    if (!set->gemm.multiplies_pairs) continue;
    for (PairSize s : kPairSizes) {
      for (unsigned specials : {0, 1, 3, 8}) {  // none, denormals, zeros as well, all
        for (bool left : {false, true}) {
          if (!sample.takes()) continue;
          // Products of denormals are large enough to change a sum.
          const float scale = specials == 1 || specials == 3 ? 0x1p-120f : 1.0f;
          expect_pair_product(
              *set, s, BfloatMatrix(s.m * s.k, 1, left ? specials : 0, left ? scale : 1 / scale),
              BfloatMatrix(s.k * s.n, 2, left ? 0 : specials, left ? 1 / scale : scale));
        }
      }
    }
  }
}

// Computes a product in parts of rows and of panels, as tasks do.
Floats in_parts(const GemmRoutines& routines, PairSize s, const OperandView& a,
                const OperandView& b, int64_t rows, int64_t columns) {
  Floats c(s.m * s.n), scratch(gemm_scratch_floats(s.m, s.k));
  std::vector<std::byte> packed(packed_floats(s.k, s.n) * element_bytes(b.element));
  routines.pack(b, s.k, s.n, 0, (s.n + kPanel - 1) / kPanel, packed.data(), s.k);
  for (int64_t i = 0; i < s.m; i += rows) {
    for (int64_t j = 0; j < s.n; j += columns) {
      routines.packed(std::min(rows, s.m - i), std::min(columns, s.n - j), s.k, a.from(i, 0),
                      packed.data() + j * s.k * element_bytes(b.element), s.k, nullptr,
                      c.data() + i * s.n + j, s.n, false, scratch.data(), b.element, nullptr,
                      nullptr, false);
    }
  }
  return c;
}

TEST(KernelPairs, HaveTheSameBitsInAnyParts) {
  Sample sample(4);
  constexpr PairSize kSize = {101, 117, 330};
  for (const KernelSet* set : host_kernel_sets()) {
    for (unsigned specials : {0, 1, 3}) {
      for (bool of_left : {false, true}) {
        const BfloatMatrix a(kSize.m * kSize.k, 1, of_left ? specials : 0, of_left ? 0x1p-120f : 1),
            b(kSize.k * kSize.n, 2, of_left ? 0 : specials, of_left ? 0x1p120f : 0x1p-120f);
        for (bool columns : {false, true}) {
          if (!sample.takes()) continue;
          const auto multiply = [&](int64_t rows, int64_t width) {
            return in_parts(set->gemm, kSize,
                            a.view(false, columns ? 1 : kSize.k, columns ? kSize.m : 1),
                            b.view(false, kSize.n, 1), rows, width);
          };
          const Floats whole = multiply(kSize.m, kSize.n);
          for (int64_t rows : {1, 7, 16, 37}) {
            EXPECT_EQ(multiply(rows, kPanel), whole) << set->name << ' ' << rows;
            EXPECT_EQ(multiply(rows, 5 * kPanel), whole) << set->name << ' ' << rows;
          }
        }
      }
    }
  }
}

// The sum of two normal products is a denormal, which may become zero.
TEST(KernelPairs, LoseDenormalSumsAlone) {
  constexpr float kLeastNormal = 0x1p-126f;
  for (const KernelSet* set : host_kernel_sets()) {
    if (!set->gemm.multiplies_pairs) continue;
    const uint16_t a[] = {support::to_bfloat16(0x1p-60f), support::to_bfloat16(0x1p-60f)};
    const uint16_t b[] = {support::to_bfloat16(0x1p-70f), support::to_bfloat16(0x1p-60f)};
    float c = 1;
    set->gemm.dots(1, 1, 1, {a, 2, 1, Element::kBfloat}, {b, 1, 2, Element::kBfloat}, nullptr, &c,
                   1);
    EXPECT_LE(std::abs(c - 0x1p-130f), kLeastNormal);
    set->gemm.dots(1, 1, 2, {a, 2, 1, Element::kBfloat}, {b, 1, 2, Element::kBfloat}, nullptr, &c,
                   1);
    EXPECT_LE(std::abs(c - 0x1p-120f), kLeastNormal);
  }
}

}  // namespace
}  // namespace poptorch::emulator
