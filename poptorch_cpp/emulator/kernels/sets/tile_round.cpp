// Random rounding of floats in registers to the values of half types.
#include <algorithm>

#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/simd.hpp"
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

struct ToHalf {
  static constexpr DType kType = DType::kF16;
  static float round(float x, uint32_t random) { return to_half(x, random); }
  template <typename Y, typename V, typename Words>
  static void put(Y* y, V a, V b, Words random) {
    put_halves_at_random(y, a, b, random);
  }
};
struct ToBfloat {
  static constexpr DType kType = DType::kBF16;
  static float round(float x, uint32_t random) { return to_bfloat(x, random); }
  template <typename Y, typename V, typename Words>
  static void put(Y* y, V a, V b, Words random) {
    put_bfloats_at_random(y, a, b, random);
  }
};

constexpr int64_t kGroup = reference::kRoundedTogether;

template <typename To>
void round_each(const float* x, float* y, int64_t n, uint32_t index, const uint32_t* key) {
  const uint32_t first = key[0], second = key[1];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t element = index + static_cast<uint32_t>(i);
    y[i] = To::round(x[i], reference::rounding_bits(element, first, second));
  }
}

// The same for whole groups: one word for two elements.
template <typename To>
void round_groups(const float* x, float* y, int64_t n, uint32_t index, const uint32_t* key) {
  constexpr int64_t kHalf = kGroup / 2;
  const uint32_t first = key[0], second = key[1];
  for (int64_t i = 0; i < n; i += kGroup) {
    const uint32_t start = (index + static_cast<uint32_t>(i)) / 2 * reference::kCounterStep + first;
#pragma GCC ivdep
    for (int64_t k = 0; k < kHalf; ++k) {
      const uint32_t counter = start + static_cast<uint32_t>(k) * reference::kCounterStep;
      const uint32_t word = reference::rounding_word(counter, second);
      y[i + k] = To::round(x[i + k], word & 0xffff);
      y[i + kHalf + k] = To::round(x[i + kHalf + k], word >> 16);
    }
  }
}

template <typename To>
void round_elements(const float* x, float* y, int64_t n, uint32_t index, const uint32_t* key) {
  const int64_t begin = std::min<int64_t>(n, (kGroup - index % kGroup) % kGroup);
  const int64_t end = begin + (n - begin) / kGroup * kGroup;
  if (begin > 0) round_each<To>(x, y, begin, index, key);
  auto index_of = [&](int64_t i) { return index + static_cast<uint32_t>(i); };
  round_groups<To>(x + begin, y + begin, end - begin, index_of(begin), key);
  if (end < n) round_each<To>(x + end, y + end, n - end, index_of(end), key);
}

// Rounds to halves in memory.
template <typename To>
void round_elements(const float* x, uint16_t* y, int64_t n, uint32_t index, const uint32_t* key) {
  constexpr int64_t kChunk = 512;
  float held[kChunk];
  MicroArgs stored;
  stored.src[0] = held;
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = std::min(kChunk, n - i);
    round_elements<To>(x + i, held, count, index + static_cast<uint32_t>(i), key);
    stored.dst[0] = y + i;
    store_fn(To::kType)(stored, count);
  }
}

// Rounds a group by vectors of half a group. `Words` is a vector of as many words.
template <typename To, typename V, typename Words, typename Y>
void round_group(const float* x, Y* y, Words random) {
  To::put(y, load<V>(x), load<V>(x + kLanesOf<V>), random);
}

// Rounds the elements [begin, end) of the group that begins at x[i].
template <typename To, typename V, typename Words, typename Y>
void round_part(const float* x, Y* y, int64_t i, int64_t begin, int64_t end, Words random) {
  float held[kGroup] = {};
  Y rounded[kGroup];
  std::copy(x + begin, x + end, held + (begin - i));
  round_group<To, V>(held, rounded, random);
  std::copy_n(rounded + (begin - i), end - begin, y + begin);
}

template <typename To, typename V, typename Words, typename Y>
void round_vectors(const float* x, Y* y, int64_t n, uint32_t index, const uint32_t* key) {
  const uint32_t second = key[1];
  const int64_t outside = index % kGroup;
  Words counter{};
  for (uint32_t k = 0; k < kGroup / 2; ++k) counter[k] = k * reference::kCounterStep;
  counter += (index - static_cast<uint32_t>(outside)) / 2 * reference::kCounterStep + key[0];
  auto next = [&] {
    const Words random = reference::rounding_word(counter, second);
    counter += static_cast<uint32_t>(kGroup / 2) * reference::kCounterStep;
    return random;
  };
  int64_t i = -outside;
  if (outside > 0) {
    round_part<To, V>(x, y, i, 0, std::min(i + kGroup, n), next());
    i += kGroup;
  }
  for (; i + kGroup <= n; i += kGroup) round_group<To, V>(x + i, y + i, next());
  if (i < n) round_part<To, V>(x, y, i, i, n, next());
}

// `Y` is float for a register, and uint16_t for halves in memory.
template <typename To, typename Y>
void round_at_random(const MicroArgs& a, int64_t n) {
  if constexpr (kLanes == kGroup / 2) {
    round_vectors<To, Widest, WidestWords>(a.in<float>(0), a.out<Y>(), n, a.index, a.key);
  } else {
    round_elements<To>(a.in<float>(0), a.out<Y>(), n, a.index, a.key);
  }
}

// The source stays a register of floats; the result is held as halves.
constexpr HalfForms kStoredForms = {
    {{{round_at_random<ToHalf, uint16_t>}, {}}, {{round_at_random<ToBfloat, uint16_t>}, {}}}};

bool is_to_half(const MicroQuery& q) { return q.results[0] == DType::kF16; }
bool is_to_bfloat(const MicroQuery& q) { return q.results[0] == DType::kBF16; }

}  // namespace

MicroFn rounding_at_random(DType dtype) {
  return dtype == DType::kF16 ? round_at_random<ToHalf, float> : round_at_random<ToBfloat, float>;
}

void add_rounding_rows(std::vector<MicroRow>& rows) {
  using enum RegisterClass;
  rows.push_back({"stochastic_cast",
                  kF32,
                  kF32,
                  round_at_random<ToHalf, float>,
                  nullptr,
                  is_to_half,
                  {},
                  &kStoredForms});
  rows.push_back({"stochastic_cast",
                  kF32,
                  kF32,
                  round_at_random<ToBfloat, float>,
                  nullptr,
                  is_to_bfloat,
                  {},
                  &kStoredForms});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
