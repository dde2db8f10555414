// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). A random
// number is a function of its key and counter alone, so it is the same wherever and whenever it is
// drawn. The reference and the fast kernels both use it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "ir/type.hpp"
#include "reference/random_key.hpp"

namespace poptorch::reference {

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  explicit Philox(const RandomKey& random) {
    // An odd multiplier spreads neighbouring op ids over the whole key.
    const uint64_t key = random.seed ^ ((random.op_id + 1) * 0x9E3779B97F4A7C15ull) ^
                         (random.round * 0xD1B54A32D192ED03ull);
    key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
    counter_ = {0, random.replica, static_cast<uint32_t>(random.micro_batch),
                static_cast<uint32_t>(random.micro_batch >> 32) << 16};
  }

  // A round multiplies two words of the counter; the key grows by these steps.
  static constexpr int kRounds = 10;
  static constexpr uint32_t kMultipliers[] = {0xD2511F53u, 0xCD9E8D57u};
  static constexpr uint32_t kKeySteps[] = {0x9E3779B9u, 0xBB67AE85u};

  // Returns the numbers of elements 4 * index to 4 * index + 3; index < 2^48.
  Block block(uint64_t index) const {
    Block c = counter_;
    c[0] = static_cast<uint32_t>(index);
    c[3] |= static_cast<uint32_t>(index >> 32);
    uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < kRounds; ++round, k0 += kKeySteps[0], k1 += kKeySteps[1]) {
      const uint64_t a = uint64_t{kMultipliers[0]} * c[0], b = uint64_t{kMultipliers[1]} * c[2];
      c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
           static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    }
    return c;
  }
  const std::array<uint32_t, 2>& key() const { return key_; }
  const Block& counter() const { return counter_; }  // of block 0
  uint32_t bits(uint64_t element) const { return block(element / 4)[element % 4]; }

 private:
  std::array<uint32_t, 2> key_;
  Block counter_;
};

// Returns the bits of a random number of [0, 1) of a type; rounding to the type never gives 1.
inline int random_digits(ir::DType dtype) {
  return dtype == ir::DType::kF16 ? 11 : dtype == ir::DType::kBF16 ? 8 : 24;
}

// Returns the leading `digits` bits as a number of [0, 1).
inline double unit_interval(uint32_t bits, int digits = 24) {
  return std::ldexp(static_cast<double>(bits >> (32 - digits)), -digits);
}

// Returns the threshold: an element is dropped, with probability p, when its leading 24 bits are
// below.
inline uint32_t drop_threshold(double p) {
  return static_cast<uint32_t>(std::ceil(p * 16777216.0));
}
inline bool is_dropped(uint32_t bits, uint32_t threshold) { return (bits >> 8) < threshold; }

// Returns two standard normal numbers from two words (Box and Muller 1958), in double.
inline std::array<double, 2> normal_pair(uint32_t a, uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((a + 1.0) * 0x1p-32));
  const double angle = 6.283185307179586476925 * (b * 0x1p-32);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace poptorch::reference
