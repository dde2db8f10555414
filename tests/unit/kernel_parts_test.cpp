// Products of float16 and of floats by parts that are bfloat16: their errors do not exceed those of
// the loops on floats, they have the same bits however they are divided, and rows and panels whose
// parts would not be exact are multiplied as floats.
#include <pthread.h>

#include <cmath>
#include <cstring>
#include <random>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"
#include "sample.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

struct PartsSize {
  int64_t m, n, k;
};
// The edges of 16 and 32 rows, columns and positions, of blocks of kPartRows rows and of 256 of k.
const PartsSize kPartsSizes[] = {{1, 1, 1},    {16, 16, 32},  {17, 31, 33},  {33, 48, 64},
                                 {40, 64, 31}, {20, 70, 257}, {385, 33, 40}, {35, 40, 290}};

// A matrix of floats, or of float16 and the same numbers as floats.
struct PartsMatrix {
  Element element;
  std::vector<uint16_t> halves;
  Floats floats;

  PartsMatrix(Element type, Floats values) : element(type), floats(std::move(values)) {
    if (element == Element::kFloat) return;
    for (float& value : floats) {
      halves.push_back(support::to_half(value));
      value = support::from_half(halves.back());
    }
  }
  OperandView view(int64_t row, int64_t col) const {
    if (element == Element::kFloat) return {floats.data(), row, col};
    return {halves.data(), row, col, element};
  }
};
constexpr Element kPartTypes[] = {Element::kHalf, Element::kFloat};

// How a product is divided, and its order.
struct PartsRun {
  int64_t rows = 1 << 20, columns = 1 << 20;
  bool by_parts = true;
};

// Computes c += a · b, where a is stored by columns or by rows.
Floats parts_product(const GemmRoutines& routines, PartsSize s, const PartsMatrix& a,
                     const PartsMatrix& b, bool by_columns, PartsRun run) {
  Floats c(s.m * s.n, 0.0f), scratch(gemm_scratch_floats(s.m, s.k));
  const int64_t size = element_bytes(b.element);
  std::vector<float> memory(packed_floats(s.k, s.n));
  auto* packed = reinterpret_cast<std::byte*>(memory.data());
  routines.pack(b.view(s.n, 1), s.k, s.n, 0, (s.n + kPanel - 1) / kPanel, packed, s.k);
  const OperandView left = by_columns ? a.view(1, s.m) : a.view(s.k, 1);
  for (int64_t i = 0; i < s.m; i += run.rows) {
    for (int64_t j = 0; j < s.n; j += run.columns) {
      routines.packed(std::min(run.rows, s.m - i), std::min(run.columns, s.n - j), s.k,
                      left.from(i, 0), packed + j * s.k * size, s.k, nullptr,
                      c.data() + i * s.n + j, s.n, true, scratch.data(), b.element, nullptr,
                      nullptr, run.by_parts);
    }
  }
  return c;
}

// Returns numbers of a distribution: normal, positive, of widely varying magnitude, or such that
// the second half of each row nearly cancels the first one.
Floats distributed(int kind, int64_t rows, int64_t columns, bool left, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-8, 7);
  Floats values(rows * columns);
  for (float& x : values) {
    x = normal(random);
    if (kind == 1) x = std::abs(x);
    if (kind == 2) x = std::ldexp(x, exponent(random));
  }
  const int64_t depth = left ? columns : rows;
  for (int64_t i = 0; kind == 3 && i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t p = left ? j : i, half = depth / 2;
      if (p < half || p >= 2 * half) continue;
      const float other = values[left ? i * columns + j - half : (i - half) * columns + j];
      values[i * columns + j] = left ? -other * (1 + std::ldexp(normal(random), -18)) : other;
    }
  }
  return values;
}

struct Errors {
  double greatest = 0, squares = 0;
};
// Returns errors in relation to the sum of the magnitudes of the products.
Errors errors_of(const Floats& c, PartsSize s, const Floats& a, const Floats& b) {
  Errors errors;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t p = 0; p < s.k; ++p) {
        const double product = double{a[i * s.k + p]} * b[p * s.n + j];
        sum += product, magnitude += std::abs(product);
      }
      const double error = std::abs(c[i * s.n + j] - sum) / magnitude;
      errors.greatest = std::max(errors.greatest, error);
      errors.squares += error * error;
    }
  }
  return errors;
}

TEST(KernelParts, HaveNoLargerErrorsThanFloats) {
  for (const KernelSet* set : host_kernel_sets()) {
    if (!set->gemm.multiplies_matrices) continue;
    for (PartsSize s : {PartsSize{100, 96, 64}, {96, 130, 256}, {64, 64, 1000}}) {
      for (int form = 0; form < 8; ++form) {
        const int kind = form / 2;
        const Element type = kPartTypes[form % 2];
        const PartsMatrix a(type, distributed(kind, s.m, s.k, true, 1)),
            b(type, distributed(kind, s.k, s.n, false, 2));
        const auto errors = [&](bool by_parts) {
          const PartsRun run{.by_parts = by_parts};
          return errors_of(parts_product(set->gemm, s, a, b, false, run), s, a.floats, b.floats);
        };
        const Errors parts = errors(true), floats = errors(false);
        SCOPED_TRACE(testing::Message() << s.k << " of kind " << kind << ", type " << form % 2);
        EXPECT_LE(parts.greatest, floats.greatest);
        EXPECT_LE(parts.squares, floats.squares);
      }
    }
  }
}

// Zeros, numbers whose parts are exact in float16 but not all in floats, and what is not finite.
const float kSpecialHalves[] = {6e-8f, -1e-6f, 0.0f, -0.0f, 65504.0f, INFINITY, NAN, -INFINITY};
const float kSpecialFloats[] = {1e-31f, -1e-39f, 0.0f, -0.0f, 3.4e38f, INFINITY, NAN, -INFINITY};

// Returns random numbers, of which one in 400 is among the first `specials`.
PartsMatrix with_specials(Element type, int64_t count, unsigned seed, unsigned specials) {
  std::mt19937 random(seed);
  Floats values = random_floats(count, seed);
  const float* among = type == Element::kFloat ? kSpecialFloats : kSpecialHalves;
  for (float& value : values) {
    if (specials > 0 && random() % 400 == 0) value = among[random() % specials];
  }
  return {type, std::move(values)};
}

// Expects values of the loops on floats, or ones that are as near to the exact sums.
void expect_float_values(const GemmRoutines& routines, PartsSize s, const PartsMatrix& a,
                         const PartsMatrix& b, bool by_columns) {
  const Floats got = parts_product(routines, s, a, b, by_columns, {});
  const Floats want = parts_product(routines, s, a, b, by_columns, {.by_parts = false});
  for (int64_t i = 0; i < s.m * s.n; ++i) {
    double sum = 0, magnitude = 0;
    for (int64_t p = 0; p < s.k; ++p) {
      const float x = a.floats[by_columns ? p * s.m + i / s.n : i / s.n * s.k + p];
      const double product = double{x} * b.floats[p * s.n + i % s.n];
      sum += product, magnitude += std::abs(product);
    }
    if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << i;
    } else if (std::isinf(want[i])) {
      ASSERT_EQ(got[i], want[i]) << i;
    } else if (got[i] != want[i]) {  // the loops on floats have larger errors
      ASSERT_NEAR(got[i], sum, 1e-6 * magnitude) << i;
    }
  }
}

TEST(KernelParts, MultiplySpecialNumbersAsFloatsDo) {
  for (const KernelSet* set : host_kernel_sets()) {
    if (!set->gemm.multiplies_matrices) continue;
    for (PartsSize s : kPartsSizes) {
      for (unsigned specials : {0, 5, 8}) {
        for (int form = 0; form < 8; ++form) {
          const bool by_columns = form & 1, of_left = form & 2;
          const Element type = kPartTypes[form / 4];
          SCOPED_TRACE(testing::Message() << s.m << "x" << s.n << "x" << s.k << " with " << specials
                                          << ", form " << form);
          const PartsMatrix a = with_specials(type, s.m * s.k, 1, of_left ? specials : 0),
                            b = with_specials(type, s.k * s.n, 2, of_left ? 0 : specials);
          expect_float_values(set->gemm, s, a, b, by_columns);
        }
      }
    }
  }
}

TEST(KernelParts, HaveTheSameBitsInAnyDivision) {
  Sample sample(4);
  constexpr PartsSize kSize = {401, 117, 330};
  for (const KernelSet* set : host_kernel_sets()) {
    for (int form = 0; form < 8; ++form) {
      if (!sample.takes()) continue;
      const bool by_columns = form & 1, of_left = form & 2;
      const Element type = kPartTypes[form / 4];
      const PartsMatrix a = with_specials(type, kSize.m * kSize.k, 1, of_left ? 8 : 0),
                        b = with_specials(type, kSize.k * kSize.n, 2, of_left ? 0 : 8);
      const Floats whole = parts_product(set->gemm, kSize, a, b, by_columns, {});
      for (int64_t rows : {1, 7, 16, 37, 390}) {
        for (int64_t columns : {kPanel, 5 * kPanel}) {
          const Floats divided = parts_product(set->gemm, kSize, a, b, by_columns, {rows, columns});
          EXPECT_EQ(std::memcmp(divided.data(), whole.data(), whole.size() * sizeof(float)), 0)
              << set->name << ' ' << rows << ' ' << columns;
        }
      }
    }
  }
}

// Multiplies matrices by parts, on a thread with a small stack.
void* multiply_on_this_stack(void*) {
  constexpr PartsSize kSize = {kPartRows, 48, 256};
  for (Element type : kPartTypes) {
    const PartsMatrix a = with_specials(type, kSize.m * kSize.k, 1, 0),
                      b = with_specials(type, kSize.k * kSize.n, 2, 0);
    for (const KernelSet* set : host_kernel_sets()) {
      parts_product(set->gemm, kSize, a, b, false, {});
    }
  }
  return nullptr;
}

TEST(KernelParts, FitSmallStacks) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, multiply_on_this_stack, nullptr), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace poptorch::emulator
