// Loops over random numbers.
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/wide_math.hpp"
#include "reference/philox.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

void words(const reference::Philox& philox, uint64_t first, uint32_t* numbers) {
  philox.blocks<kDrawnAtOnce / 4>(first / 4, numbers);
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
