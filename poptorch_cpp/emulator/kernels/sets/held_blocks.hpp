// Blocks of elements in any form as words, and back.
#pragma once

#include <cstring>

#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/sets/half_elements.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Copies n elements as words, which have the bits of floats.
[[gnu::noinline]] inline void to_words(Held held, const void* x, int64_t i, int64_t n,
                                       float* made) {
  if (held == Held::kWord) {
    std::memmove(made, static_cast<const float*>(x) + i, static_cast<size_t>(n) * sizeof(float));
  } else if (held == Held::kHalf) {
    to_floats_of<Element::kHalf>(static_cast<const uint16_t*>(x) + i, made, n);
  } else if (held == Held::kBfloat) {
    to_floats_of<Element::kBfloat>(static_cast<const uint16_t*>(x) + i, made, n);
  } else if (held == Held::kBool) {
    const auto* bools = static_cast<const uint8_t*>(x) + i;
    auto* words = reinterpret_cast<int32_t*>(made);
    for (int64_t k = 0; k < n; ++k) words[k] = bools[k];
  } else {
    const float one = *static_cast<const float*>(x);
    for (int64_t k = 0; k < n; ++k) made[k] = one;
  }
}

template <Element element>
void from_floats_of(const float* x, uint16_t* y, int64_t n) {
  using To = Elements<element>;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    To::store_two(y + i, load<Widest>(x + i), load<Widest>(x + i + kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) To::store_all(y + i, load<Widest>(x + i));
  if (i == n) return;
  uint16_t last[kLanes];
  To::store_all(last, load(x + i, first_lanes(n - i)));
  std::memcpy(y + i, last, static_cast<size_t>(n - i) * sizeof(uint16_t));
}

// Stores n words in a form.
[[gnu::noinline]] inline void from_words(const float* made, Held held, void* y, int64_t i,
                                         int64_t n) {
  if (held == Held::kWord) {
    std::memmove(static_cast<float*>(y) + i, made, static_cast<size_t>(n) * sizeof(float));
  } else if (held == Held::kHalf) {
    from_floats_of<Element::kHalf>(made, static_cast<uint16_t*>(y) + i, n);
  } else if (held == Held::kBfloat) {
    from_floats_of<Element::kBfloat>(made, static_cast<uint16_t*>(y) + i, n);
  } else {
    const auto* words = reinterpret_cast<const int32_t*>(made);
    auto* bools = static_cast<uint8_t*>(y) + i;
    for (int64_t k = 0; k < n; ++k) bools[k] = static_cast<uint8_t>(words[k]);
  }
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
