// The random bits of stochastic rounding. Almost every op of a model in half precision needs 16 for
// each element, so they are a hash of the element's index and not numbers of Philox, which gives
// the key of an op. The hash has the constants that C. Wellons found for two rounds of
// multiplication ("Prospecting for hash functions", 2018).
#pragma once

#include "reference/philox.hpp"

namespace poptorch::reference {

// The counter of word i is kCounterStep · i and the first part of the key. A counter that grows by
// one gives words at distances of powers of two that are not independent.
constexpr uint32_t kCounterStep = 0x9E3779B9;

// Kernels of all instruction sets contain these functions, so they must not exist outside of them.
// `Word` is uint32_t or a vector of them.
template <typename Word>
[[gnu::always_inline]] inline Word rounding_word(Word counter, uint32_t second) {
  Word x = counter;
  x ^= x >> 16;
  x *= 0x21f0aaadu;
  x ^= second ^ x >> 15;
  x *= 0x735a2d97u;
  return x ^ x >> 15;
}

// The first 16 of each 32 elements use the lower halves of 16 words, and the others the upper.
constexpr int64_t kRoundedTogether = 32;
[[gnu::always_inline]] inline uint32_t rounding_bits(uint32_t element, uint32_t first,
                                                     uint32_t second) {
  const uint32_t index = (element >> 5 << 4) + (element & 15);
  const uint32_t word = rounding_word(index * kCounterStep + first, second);
  return (element & 16) != 0 ? word >> 16 : word & 0xffff;
}

class RoundingBits {
 public:
  RoundingBits() {}  // not initialised
  // `stream` distinguishes the values that an op rounds.
  explicit RoundingBits(const RandomKey& key, uint64_t stream = 0) {
    const Philox::Block block = Philox(key).block(stream);
    first_ = block[0], second_ = block[1];
  }
  // The first part of the key of the elements whose indices have the same upper half.
  uint32_t first(uint64_t element) const {
    return first_ + static_cast<uint32_t>(element >> 32) * 0x85EBCA6Bu;
  }
  uint32_t second() const { return second_; }
  // Sixteen random bits.
  uint32_t of(uint64_t element) const {
    return rounding_bits(static_cast<uint32_t>(element), first(element), second_);
  }

 private:
  uint32_t first_, second_;
};

// Rounds `value` to a neighbour with `digits` significant bits (f16: 11, bf16: 8) and an exponent
// of at least `least` (-14, -126). It rounds away from zero when the sum of the dropped fraction
// and of `random`, both as numbers of [0, 1) with 16 bits, is at least 1.
inline double rounded_at_random(double value, uint32_t random, int digits, int least) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 1, least) - digits + 1;
  const double scaled = std::ldexp(std::fabs(value), -unit), below = std::floor(scaled);
  const double dropped = std::floor(std::ldexp(scaled - below, 16));
  const double chosen = below + (dropped + random >= 0x1p16 ? 1 : 0);
  return std::copysign(std::ldexp(chosen, unit), value);
}

}  // namespace poptorch::reference
