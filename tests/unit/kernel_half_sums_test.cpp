// Products that end in halves have the bits of those whose sums are stored first.
#include <algorithm>
#include <limits>
#include <random>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"
#include "sample.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

struct HalfSumsCase {
  int64_t m, n, k;
  Element element;
  bool special, by_columns, by_parts, bias, accumulates, at_random, chains;
};

std::vector<uint16_t> some_halves(const HalfSumsCase& c, int64_t elements, unsigned seed) {
  constexpr float kSpecials[] = {1e-40f, 0.0f, -0.0f, 1e38f,
                                 std::numeric_limits<float>::infinity()};
  std::mt19937 random(seed);
  std::vector<uint16_t> halves;
  for (float value : random_floats(elements, seed)) {
    if (c.special && random() % 200 == 0) value = kSpecials[random() % std::size(kSpecials)];
    halves.push_back(c.element == Element::kHalf ? support::to_half(value)
                                                 : support::to_bfloat16(value));
  }
  return halves;
}

// Computes the product as tasks do that take `rows` rows each.
std::vector<uint16_t> half_sums(const KernelSet& set, const HalfSumsCase& c, bool stores_first,
                                int64_t rows) {
  const auto a = some_halves(c, c.m * c.k, 1), b = some_halves(c, c.k * c.n, 2);
  std::vector<uint16_t> packed(packed_floats(c.k, c.n)), to(c.m * c.n);
  set.gemm.pack({b.data(), c.n, 1, c.element}, c.k, c.n, 0, (c.n + kPanel - 1) / kPanel,
                packed.data(), c.k);
  const Floats bias = random_floats(c.n, 3), scale = random_floats(c.n, 4);
  Floats sums = random_floats(c.m * c.n, 5), scratch(gemm_scratch_floats(c.m, c.k));
  HalfEnding ending;
  ending.to = to.data();
  ending.row_step = c.n;
  ending.element = c.element;
  if (c.chains) ending.scale = ending.shift = scale.data(), ending.low = 0;
  if (c.at_random) ending.rounding = {.at_random = true, .keys = {{1, 2}, {3, 4}, {5, 6}}};
  const OperandView left(a.data(), c.by_columns ? 1 : c.k, c.by_columns ? c.m : 1, c.element);
  for (int64_t i = 0; i < c.m; i += rows) {
    const HalfEnding part = ending.from(i, 0);
    set.gemm.packed(std::min(rows, c.m - i), c.n, c.k, left.from(i, 0), packed.data(), c.k,
                    c.bias ? bias.data() : nullptr, sums.data() + i * c.n, c.n, c.accumulates,
                    scratch.data(), c.element, nullptr, stores_first ? nullptr : &part, c.by_parts);
  }
  if (stores_first) set.half_blocks.end(ending, sums.data(), c.n, c.m, c.n);
  return to;
}

TEST(KernelHalfSums, HaveTheBitsOfStoredSums) {
  constexpr int64_t kSizes[][3] = {{1, 16, 32},   {37, 70, 33},  {64, 64, 64},
                                   {40, 31, 290}, {101, 96, 11}, {300, 33, 40}};
  Sample sample(4);
  for (const KernelSet* set : host_kernel_sets()) {
    for (const auto& [m, n, k] : kSizes) {
      for (unsigned bits = 0; bits < 256; ++bits) {
        const auto bit = [bits](int i) { return (bits >> i & 1) != 0; };
        const HalfSumsCase c{m,      n,      k,      bit(0) ? Element::kHalf : Element::kBfloat,
                             bit(1), bit(2), bit(3), bit(4),
                             bit(5), bit(6), bit(7)};
        if (!sample.takes()) continue;
        const auto want = half_sums(*set, c, true, m);
        for (int64_t rows : {m, int64_t{19}}) {
          const auto got = half_sums(*set, c, false, rows);
          const auto [at, other] = std::ranges::mismatch(got, want);
          EXPECT_EQ(at, got.end()) << set->name << ' ' << m << 'x' << n << 'x' << k << ' ' << bits
                                   << ' ' << rows << ": " << *at << " instead of " << *other;
        }
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
