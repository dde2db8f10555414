// Loops over random numbers.
#include <cstring>
#include <utility>

#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/wide_math.hpp"
#include "reference/philox.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using reference::Philox;

constexpr int kBlocksOfVector = sizeof(WidestLongs) / sizeof(uint64_t);
constexpr int kVectors = 2;  // of each word of the counter that advance together

// Writes x[0], y[0], x[1], y[1], ...
template <int... i>
[[gnu::always_inline]] inline void store_in_turn(WidestLongs x, WidestLongs y, uint32_t* to,
                                                 std::integer_sequence<int, i...>) {
  constexpr int kHalf = kBlocksOfVector / 2;
  const WidestLongs low = __builtin_shufflevector(x, y, (i % 2 * kBlocksOfVector + i / 2)...);
  const WidestLongs high =
      __builtin_shufflevector(x, y, (i % 2 * kBlocksOfVector + kHalf + i / 2)...);
  std::memcpy(to, &low, sizeof(low));
  std::memcpy(to + sizeof(low) / sizeof(*to), &high, sizeof(high));
}

// Each lane has a word of a block in its lower half; the upper half may have any bits.
void some_blocks(const Philox& philox, uint64_t first, uint32_t* numbers) {
  WidestLongs c[4][kVectors], lanes;
  for (int i = 0; i < kBlocksOfVector; ++i) lanes[i] = static_cast<uint64_t>(i);
  const Philox::Block& counter = philox.counter();
  for (int v = 0; v < kVectors; ++v) {
    c[0][v] = lanes + (first + static_cast<uint64_t>(v) * kBlocksOfVector);
    c[1][v] = WidestLongs{} + counter[1];
    c[2][v] = WidestLongs{} + counter[2];
    c[3][v] = c[0][v] >> 32 | counter[3];
  }
  uint32_t k0 = philox.key()[0], k1 = philox.key()[1];
  const WidestLongs by_a = WidestLongs{} + Philox::kMultipliers[0];
  const WidestLongs by_b = WidestLongs{} + Philox::kMultipliers[1];
#pragma GCC unroll 1
  for (int round = 0; round < Philox::kRounds; ++round) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const WidestLongs a = low_product(c[0][v], by_a), b = low_product(c[2][v], by_b);
      c[0][v] = b >> 32 ^ c[1][v] ^ k0;
      c[1][v] = b;
      c[2][v] = a >> 32 ^ c[3][v] ^ k1;
      c[3][v] = a;
    }
    k0 += Philox::kKeySteps[0], k1 += Philox::kKeySteps[1];
  }
  constexpr uint64_t kLower = 0xffffffff;
  for (int v = 0; v < kVectors; ++v, numbers += 4 * kBlocksOfVector) {
    store_in_turn((c[0][v] & kLower) | c[1][v] << 32, (c[2][v] & kLower) | c[3][v] << 32, numbers,
                  std::make_integer_sequence<int, kBlocksOfVector>());
  }
}

void words(const Philox& philox, uint64_t first, uint32_t* numbers) {
  constexpr int kAtOnce = kVectors * kBlocksOfVector;
  for (int i = 0; i < kDrawnAtOnce / 4; i += kAtOnce) {
    some_blocks(philox, first / 4 + static_cast<uint64_t>(i), numbers + 4 * i);
  }
}

void uniform(const uint32_t* numbers, int digits, double low, double span, double* y) {
  const double unit = wide::bits(static_cast<uint64_t>(1023 - digits) << 52);  // 2^-digits
  const int shift = 32 - digits;
  for (int i = 0; i < kDrawnAtOnce; ++i) {
    y[i] = low + span * (static_cast<double>(static_cast<int32_t>(numbers[i] >> shift)) * unit);
  }
}

// The formulas of reference::normal_pair.
void normal(const uint32_t* numbers, double mean, double std, double* y) {
  constexpr double kUnit = 0x1p-32;
  for (int i = 0; i < kDrawnAtOnce / 2; ++i) {
    const double a = wide::of_word(numbers[2 * i]), b = wide::of_word(numbers[2 * i + 1]);
    const double radius = __builtin_sqrt(-2.0 * wide::log((a + 1.0) * kUnit));
    const wide::SinCos angle = wide::sin_cos_of_turns(b * kUnit);
    y[2 * i] = mean + std * (radius * angle.cos);
    y[2 * i + 1] = mean + std * (radius * angle.sin);
  }
}

// Rounds to odd: towards zero, with the last bit set if anything was lost. The extra digits of a
// float then decide as those of the double would.
void to_odd(const double* x, float* y) {
  for (int i = 0; i < kDrawnAtOnce; ++i) {
    const float nearest = static_cast<float>(x[i]);
    const double back = static_cast<double>(nearest);
    const uint32_t beyond = wide::abs(back) > wide::abs(x[i]) ? 1 : 0, lost = back != x[i] ? 1 : 0;
    y[i] = vec::bits((vec::bits(nearest) - beyond) | lost);
  }
}

}  // namespace

const RandomRoutines kRandomRoutines{
    .words = words, .uniform = uniform, .normal = normal, .to_odd = to_odd};

}  // namespace poptorch::emulator::inline POPTORCH_SET
