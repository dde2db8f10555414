// The random bits of stochastic rounding. Almost every op of a model in half precision needs 16 for
// each element, so they are not numbers of Philox, which gives the key of an op. The index of a
// block of elements is hashed well, by the constants that C. Wellons found for two rounds of
// multiplication ("Prospecting for hash functions", 2018). The words of a block are multiples of
// its hash, so that most of the work is done once for each block.
#pragma once

#include "reference/philox.hpp"

namespace poptorch::reference {

// The counter of block i is kCounterStep · i and the first part of the key. A counter that grows by
// one gives hashes at distances of powers of two that are not independent.
constexpr uint32_t kCounterStep = 0x9E3779B9;

constexpr uint32_t kBlockElements = 16;  // two for each word
constexpr int kBlocksOfMultipliers = 3;
// A pair of words is one of the 2^32 points of a lattice. These multipliers were chosen such that
// no pair has a short vector and the last four bits differ; tests/unit/kernels_rounding_test.cpp
// tests all pairs. They are repeated for vectors of three blocks.
alignas(64) constexpr uint32_t kMultipliers[kBlocksOfMultipliers * kBlockElements / 2] = {
    0x4a78bbb1, 0x82c59903, 0x91be6315, 0x4e6da667, 0x74612ca9, 0x23a1126b, 0xdf7c95bd, 0xf3c868bf,
    0x4a78bbb1, 0x82c59903, 0x91be6315, 0x4e6da667, 0x74612ca9, 0x23a1126b, 0xdf7c95bd, 0xf3c868bf,
    0x4a78bbb1, 0x82c59903, 0x91be6315, 0x4e6da667, 0x74612ca9, 0x23a1126b, 0xdf7c95bd, 0xf3c868bf};

// Kernels of all instruction sets contain these functions, so they must not exist outside of them.
// `Word` is uint32_t or a vector of them.
template <typename Word>
[[gnu::always_inline]] inline Word block_hash(Word block, uint32_t first, uint32_t second) {
  Word x = block * kCounterStep + first;
  x ^= x >> 16;
  x *= 0x21f0aaadu;
  x ^= second ^ x >> 15;
  x *= 0x735a2d97u;
  return x ^ x >> 15;
}
// The low bits of a multiple depend on few bits of the hash.
template <typename Word>
[[gnu::always_inline]] inline Word rounding_word(Word hash, Word multiplier) {
  const Word multiple = hash * multiplier;
  return multiple ^ multiple >> 16;
}
// The first of two elements uses the lower half of their word.
[[gnu::always_inline]] inline uint32_t rounding_bits(uint32_t element, uint32_t first,
                                                     uint32_t second) {
  const uint32_t hash = block_hash(element / kBlockElements, first, second);
  const uint32_t word = rounding_word(hash, kMultipliers[element % kBlockElements / 2]);
  return (element & 1) != 0 ? word >> 16 : word & 0xffff;
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
