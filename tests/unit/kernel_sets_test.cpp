// Kernels compiled for several instruction sets: each that the host can run is bit-identical to the
// narrowest. SSE4 rounds where the others fuse, so it is compared only on exact results.
#include <cmath>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"
#include "sample.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

struct Size {
  int64_t m, n, k;
};
const Size kSizes[] = {{1, 1, 1},      {1, 16, 5},    {8, 512, 784}, {5, 17, 9},
                       {12, 31, 64},   {13, 33, 65},  {24, 48, 70},  {25, 15, 300},
                       {96, 100, 257}, {97, 32, 520}, {200, 63, 31}, {7, 8, 33}};

// Returns the pairs of sets whose results are bit-identical.
std::vector<std::pair<const KernelSet*, const KernelSet*>> equal_sets() {
  std::vector<const KernelSet*> fused;
  for (const KernelSet* set : host_kernel_sets()) {
    if (set->name != "SSE4") fused.push_back(set);
  }
  std::vector<std::pair<const KernelSet*, const KernelSet*>> pairs;
  for (size_t i = 1; i < fused.size(); ++i) pairs.emplace_back(fused[0], fused[i]);
  return pairs;
}

class EqualSets : public testing::Test {
 protected:
  void SetUp() override {
    if (equal_sets().empty()) GTEST_SKIP() << "the host or the build has one set alone";
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
    routines.pack({b.data(), s.n, 1}, s.k, s.n, 0, panels, packed.data(), s.k);
    routines.packed(s.m, s.n, s.k, left, packed.data(), s.k, bias_data, c.data(), s.n, route == 'a',
                    scratch.data(), Element::kFloat, nullptr, nullptr, false);
  }
  return c;
}

TEST_F(EqualSets, SumProductsInTheSameOrder) {
  Sample sample(4);
  for (const auto& [narrow, wide] : equal_sets()) {
    for (Size s : kSizes) {
      for (char route : {'r', 'p', 'a'}) {
        for (int form = 0; form < 4; ++form) {
          if (!sample.takes()) continue;
          const bool bias = form & 1, transposed = form & 2;
          ASSERT_EQ(product(narrow->gemm, s, route, bias, transposed),
                    product(wide->gemm, s, route, bias, transposed))
              << wide->name << ": " << s.m << "x" << s.n << "x" << s.k << " by " << route << " "
              << form;
        }
      }
    }
  }
}

TEST(KernelSets, ComputeProducts) {
  Sample sample(4);
  for (const KernelSet* set : host_kernel_sets()) {
    for (Size s : kSizes) {
      for (char route : {'d', 'r', 'p'}) {
        if (!sample.takes()) continue;
        const Floats a = random_floats(s.m * s.k, 1), b = random_floats(s.k * s.n, 2);
        const Floats bias = random_floats(s.n, 3), c = product(set->gemm, s, route, true, false);
        for (int64_t i = 0; i < s.m; ++i) {
          for (int64_t j = 0; j < s.n; ++j) {
            double sum = bias[j], magnitude = 1;
            for (int64_t p = 0; p < s.k; ++p) {
              const double term =
                  double{a[i * s.k + p]} * b[route == 'd' ? j * s.k + p : p * s.n + j];
              sum += term, magnitude += std::abs(term);
            }
            ASSERT_NEAR(c[i * s.n + j], sum, 5e-7 * magnitude) << set->name << " by " << route;
          }
        }
      }
    }
  }
}

// Returns the product of rows of a, which may be halves, and a packed or unpacked b of halves.
Floats half_product(const GemmRoutines& routines, Size s, char route, OperandView a,
                    OperandView b) {
  Floats c(s.m * s.n), scratch(gemm_scratch_floats(s.m, s.k));
  if (route == 'd') std::swap(b.row, b.col), b.col = s.k;
  if (route == 'r') routines.rows(s.m, s.n, s.k, a, b, nullptr, c.data(), s.n);
  if (route == 'd') routines.dots(s.m, s.n, s.k, a, b, nullptr, c.data(), s.n);
  if (route == 'p' || route == 't') {
    std::vector<std::byte> packed(packed_floats(s.k, s.n) * element_bytes(b.element));
    if (route == 't') b = OperandView(b.data, 1, s.k, b.element);
    routines.pack(b, s.k, s.n, 0, (s.n + kPanel - 1) / kPanel, packed.data(), s.k);
    routines.packed(s.m, s.n, s.k, a, packed.data(), s.k, nullptr, c.data(), s.n, false,
                    scratch.data(), b.element, nullptr, nullptr, false);
  }
  return c;
}

TEST(KernelSets, MultiplyHalvesAsTheFloatsThatTheyAre) {
  for (Size s : kSizes) {
    for (Element element : {Element::kHalf, Element::kBfloat}) {
      std::vector<uint16_t> a(s.m * s.k), b(s.k * s.n);
      Floats wide_a(a.size()), wide_b(b.size());
      auto fill = [element](std::vector<uint16_t>& halves, Floats& wide, unsigned seed) {
        const Floats values = random_floats(static_cast<int64_t>(halves.size()), seed);
        for (size_t i = 0; i < halves.size(); ++i) {
          const bool brain = element == Element::kBfloat;
          halves[i] = brain ? support::to_bfloat16(values[i]) : support::to_half(values[i]);
          wide[i] = brain ? support::from_bfloat16(halves[i]) : support::from_half(halves[i]);
        }
      };
      fill(a, wide_a, 1);
      fill(b, wide_b, 2);
      const OperandView floats(wide_b.data(), s.n, 1), halves(b.data(), s.n, 1, element);
      for (const KernelSet* set : host_kernel_sets()) {
        for (char route : {'r', 'd', 'p', 't'}) {
          for (bool columns : {false, true}) {
            if (route == 'd' && columns) continue;
            // Sums of matrices have another order: see kernel_pairs_test.cpp.
            const bool packs = route == 'p' || route == 't';
            if (packs && element == Element::kBfloat && set->gemm.multiplies_matrices) continue;
            const int64_t row = columns ? 1 : s.k, col = columns ? s.m : 1;
            const OperandView left(wide_a.data(), row, col), half_left(a.data(), row, col, element);
            const bool converts = route != 'd' && (route != 'r' || s.m <= kRowBlock);
            ASSERT_EQ(half_product(set->gemm, s, route, left, floats),
                      half_product(set->gemm, s, route, converts ? half_left : left, halves))
                << set->name << ": " << s.m << "x" << s.n << "x" << s.k << " by " << route;
          }
        }
      }
    }
  }
}

TEST(KernelSets, PackRowsAndColumnsAlike) {
  for (const KernelSet* set : host_kernel_sets()) {
    for (Size s : kSizes) {
      const Floats b = random_floats(s.k * s.n, 2);
      Floats turned(b.size());
      for (int64_t p = 0; p < s.k; ++p) {
        for (int64_t j = 0; j < s.n; ++j) turned[j * s.k + p] = b[p * s.n + j];
      }
      const int64_t panels = (s.n + kPanel - 1) / kPanel;
      Floats rows(packed_floats(s.k, s.n)), columns(rows.size());
      set->gemm.pack({b.data(), s.n, 1}, s.k, s.n, 0, panels, rows.data(), s.k);
      set->gemm.pack({turned.data(), 1, s.k}, s.k, s.n, 0, panels, columns.data(), s.k);
      ASSERT_EQ(rows, columns) << set->name << ": " << s.k << "x" << s.n;
      EXPECT_EQ(rows[0], b[0]);
      EXPECT_EQ(rows[s.k * kPanel - kPanel], b[(s.k - 1) * s.n]);
    }
  }
}

TEST(KernelSets, ConvertEveryHalf) {
  constexpr int64_t kHalves = 1 << 16;
  std::vector<uint16_t> halves(kHalves), back(kHalves);
  for (int64_t i = 0; i < kHalves; ++i) halves[i] = static_cast<uint16_t>(i);
  for (const KernelSet* set : host_kernel_sets()) {
    Floats wide(kHalves), narrow(kHalves);
    MicroArgs args;
    auto run = [&](MicroFn fn, const void* from, void* to) {
      args.src[0] = from, args.dst[0] = to;
      fn(args, kHalves - 1);  // the tile ends within a vector
    };
    run(set->conversions.load(ir::DType::kF16), halves.data(), wide.data());
    run(set->conversions.store(ir::DType::kF16), wide.data(), back.data());
    run(set->conversions.narrow(ir::DType::kF16), wide.data(), narrow.data());
    for (int64_t i = 0; i < kHalves - 1; ++i) {
      if (std::isnan(support::from_half(halves[i]))) {
        ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(narrow[i])) << set->name << " " << i;
        continue;
      }
      ASSERT_EQ(wide[i], support::from_half(halves[i])) << set->name << " " << i;
      ASSERT_EQ(back[i], halves[i]) << set->name;
      ASSERT_EQ(narrow[i], wide[i]) << set->name;
    }
    const float ties[] = {1.00048828125f, 1.00146484375f, 65520.0f, -65519.0f, 2.98023224e-8f};
    uint16_t rounded[5];
    args.src[0] = ties, args.dst[0] = rounded;
    set->conversions.store(ir::DType::kF16)(args, 5);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(rounded[i], support::to_half(ties[i])) << set->name;
  }
}

using ProductFn = decltype(ProductForm::run);

// Returns weights and moments after an update by a product of 5 × cols, whose sources and numbers
// are in the places that the micro-ops of updates use.
std::vector<Floats> updated(ProductFn update, int64_t cols, bool rounded, bool halves) {
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

// Returns the rows of a micro-op.
std::vector<MicroRow> rows_of(const KernelSet& set, std::string_view op) {
  std::vector<MicroRow> all, found;
  set.add_micro_rows(all);
  for (const MicroRow& row : all) {
    if (op == row.op) found.push_back(row);
  }
  return found;
}

TEST_F(EqualSets, UpdateToTheSameBits) {
  for (const auto& [narrow, wide] : equal_sets()) {
    const auto few = rows_of(*narrow, "adam_update"), many = rows_of(*wide, "adam_update");
    ASSERT_EQ(many.size(), 2u);  // decoupled weight decay, and not
    for (int64_t cols : {8, 16, 40, 64, 72, 200}) {
      for (int i : {0, 1}) {
        EXPECT_EQ(updated(few[i].product.run, cols, false, false),
                  updated(many[i].product.run, cols, false, false));
      }
      EXPECT_NE(updated(many[0].product.run, cols, false, false),
                updated(many[1].product.run, cols, false, false));
      for (int form = 0; form < 8; ++form) {
        const bool half = form & 4, ratio = form & 2, held = form & 1;
        if (held && !half) continue;
        EXPECT_EQ(updated(narrow->joined.adam[half][ratio][held].product.run, cols, true, held),
                  updated(wide->joined.adam[half][ratio][held].product.run, cols, true, held))
            << cols << " " << form;
      }
    }
  }
}

// Returns w after a step whose w and rate are in the places that sgd and accumulate use.
Floats stepped(ProductFn update, bool accumulate) {
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

TEST_F(EqualSets, StepToTheSameBits) {
  for (const auto& [narrow, wide] : equal_sets()) {
    auto step = [](const KernelSet& set, const char* op, bool accumulate) {
      return stepped(rows_of(set, op)[0].product.run, accumulate);
    };
    EXPECT_EQ(step(*narrow, "sgd_update", false), step(*wide, "sgd_update", false));
    EXPECT_EQ(step(*narrow, "accumulate", true), step(*wide, "accumulate", true));
    EXPECT_NE(step(*wide, "sgd_update", false), step(*wide, "accumulate", true));
  }
}

// Returns what a micro-op computes from three operands of its class. The tile ends within a vector.
std::vector<uint8_t> mapped(const MicroRow& row) {
  constexpr int64_t kCount = 61, kSources = 3;
  const Floats x = random_floats(kSources * kCount, 5);
  std::vector<double> wide(x.begin(), x.end());
  std::vector<int32_t> whole(x.size());
  std::vector<int64_t> longs(x.size());
  for (size_t i = 0; i < x.size(); ++i) longs[i] = whole[i] = 1 + static_cast<int32_t>(i % 7);
  std::vector<uint8_t> made(8 * kCount);
  const double immediates[8] = {-0.5, 0.5, 1.0, 1.0};
  const HeldAs words;
  MicroArgs args;
  args.immediates = immediates;
  args.held = &words;
  args.dst[0] = made.data();
  for (int i = 0; i < kSources; ++i) {
    const void* const of_class[] = {x.data() + i * kCount, whole.data() + i * kCount,
                                    longs.data() + i * kCount, wide.data() + i * kCount};
    args.src[i] = of_class[static_cast<size_t>(row.source)];
  }
  if (std::string_view(row.op) == "select") args.src[0] = whole.data();
  args.index = 5, args.index_step = 1;  // of rows that round at random
  args.key[0] = 7, args.key[1] = 11;
  row.fn(args, kCount);
  return made;
}

TEST_F(EqualSets, MapElementsToTheSameBits) {
  for (const auto& [narrow, wide] : equal_sets()) {
    // AVX512_AMX has the loops of AVX512, with other products.
    const bool has_same_loops = wide->name.starts_with(narrow->name);
    std::vector<MicroRow> few, many;
    narrow->add_micro_rows(few);
    wide->add_micro_rows(many);
    ASSERT_EQ(few.size(), many.size());
    for (size_t i = 0; i < many.size(); ++i) {
      ASSERT_STREQ(few[i].op, many[i].op);
      EXPECT_EQ(few[i].fn == many[i].fn, has_same_loops);
      if (many[i].product.run || std::string_view(many[i].op).ends_with("_update")) continue;
      if (std::string_view(many[i].op) == "lamb_direction") continue;
      EXPECT_EQ(mapped(few[i]), mapped(many[i])) << many[i].op;
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
