// Reductions over replicas: bit-identical for every implementation.
#include "emulator/collectives/fold.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "emulator/collectives/collective.hpp"
#include "emulator/host/pool.hpp"
#include "ir/attr.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

// The conversions of kernels equal those of constants, which follow the definition of the formats.
template <typename Case>
void compare(Case c) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const auto exact = static_cast<float>(c.from_defined(half));
    const float found = c.from(half);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(found)) << bits;
      continue;
    }
    ASSERT_EQ(found, exact) << bits;
    ASSERT_EQ(std::signbit(found), std::signbit(exact)) << bits;
    // Numbers around the value, and around the midpoint between it and the next value.
    const auto next = static_cast<float>(c.from_defined(static_cast<uint16_t>(half + 1)));
    for (const float x : {exact, exact / 2 + next / 2}) {
      for (const float y : {std::nextafter(x, -INFINITY), x, std::nextafter(x, INFINITY)}) {
        ASSERT_EQ(c.to(y), c.to_defined(y)) << bits << " " << y;
      }
    }
  }
  for (const float x : {1e30f, -1e30f, 65519.9f, 65520.0f, std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::denorm_min(), std::nanf("7"), -std::nanf("")}) {
    ASSERT_EQ(c.to(x), c.to_defined(x)) << x;
  }
}

TEST(Half, IsThatOfTheDefinition) {
  compare(([] {
    struct {
      double (*from_defined)(uint16_t) = ir::from_half_bits;
      uint16_t (*to_defined)(double) = ir::to_half_bits;
      float (*from)(uint16_t) = support::from_half;
      uint16_t (*to)(float) = support::to_half;
    } made;
    return made;
  })());
}

TEST(Half, OfBfloat16IsThatOfTheDefinition) {
  compare(([] {
    struct {
      double (*from_defined)(uint16_t) = ir::from_bfloat16_bits;
      uint16_t (*to_defined)(double) = ir::to_bfloat16_bits;
      float (*from)(uint16_t) = support::from_bfloat16;
      uint16_t (*to)(float) = support::to_bfloat16;
    } made;
    return made;
  })());
}

// Runs a reduction of two replicas with `threads` threads; it is long enough for several tasks.
std::vector<float> reduced(CollectiveKind kind, int threads) {
  constexpr int64_t kElements = 100'002;
  Pool pool(threads);
  const bool parts = kind == CollectiveKind::kReduceScatter;
  Collective collective({.kind = kind, .groups = {2, 2, 1}, .elements = kElements}, 2, &pool);
  std::vector<float> operands[2], results[2];
  for (int i = 0; i < 2; ++i) {
    for (int64_t k = 0; k < kElements; ++k) {
      operands[i].push_back(0.1f * static_cast<float>(k % 1013) + static_cast<float>(i));
    }
    results[i].resize(parts ? kElements / 2 : kElements);
  }
  int64_t ticket = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(collective.is_done(0));
    ticket = collective.arrive(i, reinterpret_cast<const std::byte*>(operands[i].data()),
                               reinterpret_cast<std::byte*>(results[i].data()));
  }
  EXPECT_TRUE(collective.is_done(ticket));
  for (int i = 0; i < 2; ++i) {
    const size_t first = parts && i == 1 ? kElements / 2 : 0;
    for (size_t k = 0; k < results[i].size(); ++k) {
      const float expected = operands[0][first + k] + operands[1][first + k];
      EXPECT_EQ(results[i][k], expected) << i << " " << k;
      if (results[i][k] != expected) break;
    }
  }
  results[0].insert(results[0].end(), results[1].begin(), results[1].end());
  return results[0];
}

TEST(Collective, HasTheSameBitsWithAnyNumberOfThreads) {
  for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter}) {
    const std::vector<float> alone = reduced(kind, 1);
    for (int threads : {2, 4}) {
      const std::vector<float> together = reduced(kind, threads);
      ASSERT_EQ(alone.size(), together.size());
      EXPECT_EQ(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)), 0)
          << name_of(kind) << " " << threads;
    }
  }
}

// A thread that requests the result during the computation gets an answer, and can help instead of
// waiting.
TEST(Collective, CanBeAskedWhileItIsComputed) {
  struct Asked final : Collective {
    Asked() : Collective({}, 1, nullptr) {}
    bool compute() override {
      was_done = is_done(0);
      return true;
    }
    bool was_done = true;
  } asked;
  const int64_t ticket = asked.arrive(0, nullptr, nullptr);
  EXPECT_FALSE(asked.was_done);
  EXPECT_TRUE(asked.is_done(ticket));
}

}  // namespace
}  // namespace poptorch::emulator
