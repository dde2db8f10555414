// What is compiled for several instruction sets: the same bits from each that the host can run.
#include <random>

#include "emulator/kernels/wide/gemm_routines.hpp"
#include "emulator/kernels/wide/product_updates.hpp"
#include "gtest/gtest.h"

namespace poptorch::emulator {
namespace {

using Floats = std::vector<float>;

Floats random_floats(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  Floats values(count);
  for (float& value : values) value = number(generator);
  return values;
}

struct Size {
  int64_t m, n, k;
};
const Size kSizes[] = {{1, 1, 1},      {1, 16, 5},    {8, 512, 784}, {5, 17, 9},
                       {12, 31, 64},   {13, 33, 65},  {24, 48, 70},  {25, 15, 300},
                       {96, 100, 257}, {97, 32, 520}, {200, 63, 31}, {7, 8, 33}};

class EveryIsa : public testing::Test {
 protected:
  void SetUp() override {
    if (host_isa() != Isa::kAvx512) GTEST_SKIP() << "the host has no AVX-512";
  }
};

Floats product(const GemmRoutines& routines, Size s, char route, bool bias, bool transposed) {
  const Floats a = random_floats(s.m * s.k, 1), b = random_floats(s.k * s.n, 2);
  const Floats added = random_floats(s.n, 3);
  const float* bias_data = bias ? added.data() : nullptr;
  const MatrixView left = transposed ? MatrixView{a.data(), 1, s.m} : MatrixView{a.data(), s.k, 1};
  Floats c = random_floats(s.m * s.n, 4);
  if (route == 'r') {
    routines.rows(s.m, s.n, s.k, left, {b.data(), s.n, 1}, bias_data, c.data(), s.n);
  } else if (route == 'd') {
    routines.dots(s.m, s.n, s.k, left, {b.data(), 1, s.k}, bias_data, c.data(), s.n);
  } else {
    Floats packed(packed_floats(s.k, s.n)), scratch(gemm_scratch_floats(s.m, s.k));
    const int64_t panels = (s.n + kPanel - 1) / kPanel;
    pack_panels({b.data(), s.n, 1}, s.k, s.n, 0, panels, packed.data(), s.k);
    routines.packed(s.m, s.n, s.k, left, packed.data(), s.k, bias_data, c.data(), s.n, route == 'a',
                    scratch.data());
  }
  return c;
}

TEST_F(EveryIsa, SumsProductsInTheSameOrder) {
  const auto &narrow = gemm_routines<Isa::kAvx2>(), &wide = gemm_routines<Isa::kAvx512>();
  for (Size s : kSizes) {
    for (char route : {'r', 'p', 'a'}) {
      for (int form = 0; form < 4; ++form) {
        const bool bias = form & 1, transposed = form & 2;
        ASSERT_EQ(product(narrow, s, route, bias, transposed),
                  product(wide, s, route, bias, transposed))
            << s.m << "x" << s.n << "x" << s.k << " by " << route << " " << form;
      }
    }
  }
}

TEST(Gemm, DotsAreRightOnEveryIsa) {
  std::vector<const GemmRoutines*> all = {&gemm_routines<Isa::kAvx2>()};
  if (host_isa() == Isa::kAvx512) all.push_back(&gemm_routines<Isa::kAvx512>());
  for (const GemmRoutines* routines : all) {
    for (Size s : kSizes) {
      const Floats a = random_floats(s.m * s.k, 1), b = random_floats(s.k * s.n, 2);
      const Floats bias = random_floats(s.n, 3), c = product(*routines, s, 'd', true, false);
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          double sum = bias[j];
          for (int64_t p = 0; p < s.k; ++p) sum += double{a[i * s.k + p]} * b[j * s.k + p];
          ASSERT_NEAR(c[i * s.n + j], sum, 2e-5) << s.m << "x" << s.n << "x" << s.k;
        }
      }
    }
  }
}

// Weights and moments after an update by a product of 5 × cols, whose sources and numbers stand in
// the places that the micro-ops of updates have.
std::vector<Floats> updated(ProductUpdates::Fn update, int64_t cols, bool rounded, bool halves) {
  constexpr int64_t kRows = 5, kInner = 8;
  const Floats a = random_floats(kRows * kInner, 1), b = random_floats(kInner * cols, 2);
  Floats w = random_floats(kRows * cols, 3), m = random_floats(kRows * cols, 4);
  Floats v = random_floats(kRows * cols, 5);
  for (float& x : v) x = x * x;
  if (halves) std::fill(m.begin(), m.end(), 0.0f);
  const double numbers[] = {3, 0.01, 0.9, 0.999, 1e-5, 0.02};
  const float factors[] = {0.9f, 0.1f, 0.999f, 0.001f, 1e-5f};
  const double immediates[] = {rounded ? -0.01 : 0.0, 1.0};
  MicroArgs args;
  args.immediates = immediates;
  if (rounded) {
    const void* sources[] = {&factors[0], m.data(),    &factors[1], nullptr, &factors[2],
                             v.data(),    &factors[3], &factors[4], w.data()};
    std::copy(std::begin(sources), std::end(sources), args.src);
    args.dst[0] = m.data(), args.dst[1] = v.data(), args.dst[2] = w.data();
  } else {
    const void* sources[] = {w.data(), m.data(), v.data(), nullptr};
    std::copy(std::begin(sources), std::end(sources), args.src);
    for (int i = 0; i < 6; ++i) args.src[4 + i] = &numbers[i];
    args.dst[0] = w.data(), args.dst[1] = m.data(), args.dst[2] = v.data();
  }
  update(args, {.a = {a.data(), kInner, 1},
                .b = {b.data(), cols, 1},
                .rows = kRows,
                .cols = cols,
                .k = kInner,
                .row_step = cols});
  return {w, m, v};
}

TEST_F(EveryIsa, UpdatesToTheSameBits) {
  const auto &narrow = product_updates<Isa::kAvx2>(), &wide = product_updates<Isa::kAvx512>();
  for (int64_t cols : {8, 16, 40, 64, 72, 200}) {
    EXPECT_EQ(updated(narrow.adam, cols, false, false), updated(wide.adam, cols, false, false));
    EXPECT_EQ(updated(narrow.adamw, cols, false, false), updated(wide.adamw, cols, false, false));
    EXPECT_NE(updated(wide.adam, cols, false, false), updated(wide.adamw, cols, false, false));
    for (int form = 0; form < 8; ++form) {
      const bool half = form & 4, ratio = form & 2, held = form & 1;
      if (held && !half) continue;
      EXPECT_EQ(updated(narrow.rounded_adam[half][ratio][held], cols, true, held),
                updated(wide.rounded_adam[half][ratio][held], cols, true, held))
          << cols << " " << form;
    }
  }
}

// w and the rate, where sgd and accumulate have them.
Floats stepped(ProductUpdates::Fn update, bool accumulate) {
  constexpr int64_t kCols = 72;
  const Floats a = random_floats(8, 1), b = random_floats(8 * kCols, 2);
  Floats w = random_floats(kCols, 3);
  const double rate = 0.1, decay = 0.01, immediates[] = {accumulate ? 0.5 : 0.0};
  MicroArgs args;
  args.immediates = immediates;
  args.src[0] = w.data(), args.src[2] = &rate, args.src[3] = &decay;
  args.dst[0] = w.data();
  update(args, {.a = {a.data(), 8, 1},
                .b = {b.data(), kCols, 1},
                .rows = 1,
                .cols = kCols,
                .k = 8,
                .row_step = kCols});
  return w;
}

TEST_F(EveryIsa, StepsToTheSameBits) {
  const auto &narrow = product_updates<Isa::kAvx2>(), &wide = product_updates<Isa::kAvx512>();
  EXPECT_EQ(stepped(narrow.sgd, false), stepped(wide.sgd, false));
  EXPECT_EQ(stepped(narrow.accumulate, true), stepped(wide.accumulate, true));
  EXPECT_NE(stepped(wide.sgd, false), stepped(wide.accumulate, true));
}

// What a micro-op makes of three operands of its class. The tile ends within a vector.
std::vector<uint8_t> mapped(const MicroRow& row) {
  constexpr int64_t kCount = 61, kSources = 3;
  const Floats x = random_floats(kSources * kCount, 5);
  std::vector<double> wide(x.begin(), x.end());
  std::vector<int32_t> whole(x.size());
  std::vector<int64_t> longs(x.size());
  for (size_t i = 0; i < x.size(); ++i) longs[i] = whole[i] = 1 + static_cast<int32_t>(i % 7);
  std::vector<uint8_t> made(8 * kCount);
  const double immediates[8] = {-0.5, 0.5, 1.0, 1.0};
  MicroArgs args;
  args.immediates = immediates;
  args.dst[0] = made.data();
  for (int i = 0; i < kSources; ++i) {
    const void* const of_class[] = {x.data() + i * kCount, whole.data() + i * kCount,
                                    longs.data() + i * kCount, wide.data() + i * kCount};
    args.src[i] = of_class[static_cast<size_t>(row.source)];
  }
  if (std::string_view(row.op) == "select") args.src[0] = whole.data();
  row.fn(args, kCount);
  return made;
}

TEST_F(EveryIsa, MapsElementsToTheSameBits) {
  std::vector<MicroRow> narrow, wide;
  add_unary_rows<Isa::kAvx2>(narrow);
  add_binary_rows<Isa::kAvx2>(narrow);
  add_unary_rows<Isa::kAvx512>(wide);
  add_binary_rows<Isa::kAvx512>(wide);
  ASSERT_EQ(narrow.size(), wide.size());
  for (size_t i = 0; i < wide.size(); ++i) {
    ASSERT_STREQ(narrow[i].op, wide[i].op);
    EXPECT_NE(narrow[i].fn, wide[i].fn);
    EXPECT_EQ(mapped(narrow[i]), mapped(wide[i])) << wide[i].op;
  }
}

}  // namespace
}  // namespace poptorch::emulator
