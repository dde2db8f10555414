// Random rounding of floats in registers to the values of half types.
#include <algorithm>

#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/vector_math.hpp"
#include "reference/rounding_bits.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using ir::DType;

constexpr uint32_t kInfinity = 0x7f800000;

// Each adds as many random bits as the format drops, and drops the sum of both.
float to_bfloat(float x, uint32_t random) {
  const uint32_t all = vec::bits(x), magnitude = all & 0x7fffffff;
  return vec::bits(magnitude > kInfinity ? all : (all + random) & 0xffff0000u);
}

float to_half(float x, uint32_t random) {
  constexpr uint32_t kLeast = 0x38800000, kOverflow = 0x47800000;  // 2^-14, 65536
  const uint32_t all = vec::bits(x), magnitude = all & 0x7fffffff;
  // Numbers below 2^-14 become multiples of 2^-24. Of the two parts, one is always 2^-14.
  const float small = vec::bits(std::min(magnitude, kLeast));
  const auto fixed = static_cast<uint32_t>(static_cast<int32_t>(small * 0x1p40f)) + random;
  const float multiple = static_cast<float>(static_cast<int32_t>(fixed >> 16)) * 0x1p-24f;
  const uint32_t normal = (std::max(magnitude, kLeast) + (random >> 3)) & ~0x1fffu;
  const uint32_t finite = vec::bits(multiple) - kLeast + normal;
  const uint32_t other = std::max(magnitude, kInfinity);
  return vec::bits((finite >= kOverflow ? other : finite) | (all & 0x80000000u));
}

using Rounding = float (*)(float, uint32_t);

template <Rounding round>
void round_each(const float* x, float* y, int64_t n, uint32_t index, const uint32_t* key) {
  const uint32_t first = key[0], second = key[1];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t element = index + static_cast<uint32_t>(i);
    y[i] = round(x[i], reference::rounding_bits(element, first, second));
  }
}

// The same for whole groups: one word for two elements.
template <Rounding round>
void round_groups(const float* x, float* y, int64_t n, uint32_t index, const uint32_t* key) {
  constexpr int64_t kHalf = reference::kRoundedTogether / 2;
  const uint32_t first = key[0], second = key[1];
  for (int64_t i = 0; i < n; i += 2 * kHalf) {
    const uint32_t start = (index + static_cast<uint32_t>(i)) / 2 * reference::kCounterStep + first;
#pragma GCC ivdep
    for (int64_t k = 0; k < kHalf; ++k) {
      const uint32_t counter = start + static_cast<uint32_t>(k) * reference::kCounterStep;
      const uint32_t word = reference::rounding_word(counter, second);
      y[i + k] = round(x[i + k], word & 0xffff);
      y[i + kHalf + k] = round(x[i + kHalf + k], word >> 16);
    }
  }
}

template <Rounding round>
void round_at_random(const MicroArgs& a, int64_t n) {
  constexpr int64_t kGroup = reference::kRoundedTogether;
  const float* x = a.in<float>(0);
  float* y = a.out<float>();
  const int64_t begin = std::min<int64_t>(n, (kGroup - a.index % kGroup) % kGroup);
  const int64_t end = begin + (n - begin) / kGroup * kGroup;
  if (begin > 0) round_each<round>(x, y, begin, a.index, a.key);
  auto index_of = [&](int64_t i) { return a.index + static_cast<uint32_t>(i); };
  round_groups<round>(x + begin, y + begin, end - begin, index_of(begin), a.key);
  if (end < n) round_each<round>(x + end, y + end, n - end, index_of(end), a.key);
}

bool is_to_half(const MicroQuery& q) { return q.results[0] == DType::kF16; }
bool is_to_bfloat(const MicroQuery& q) { return q.results[0] == DType::kBF16; }

}  // namespace

MicroFn rounding_at_random(DType dtype) {
  return dtype == DType::kF16 ? round_at_random<to_half> : round_at_random<to_bfloat>;
}

void add_rounding_rows(std::vector<MicroRow>& rows) {
  using enum RegisterClass;
  rows.push_back({"stochastic_cast", kF32, kF32, round_at_random<to_half>, nullptr, is_to_half});
  rows.push_back(
      {"stochastic_cast", kF32, kF32, round_at_random<to_bfloat>, nullptr, is_to_bfloat});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
