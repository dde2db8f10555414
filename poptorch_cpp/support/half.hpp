// Converts the 16-bit floating-point formats: to float exactly, from float to nearest, ties to
// even. A float NaN keeps only its sign, so that results are bit-identical on every processor.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace poptorch::support {

#ifdef __ARM_FP16_FORMAT_IEEE
using HalfFloat = __fp16;  // g++ 12 has no _Float16 in C++ for this processor
#else
using HalfFloat = _Float16;
#endif

inline float from_half(uint16_t bits) { return static_cast<float>(std::bit_cast<HalfFloat>(bits)); }

inline uint16_t to_half(float value) {
  if (value != value) return std::signbit(value) ? 0xfe00 : 0x7e00;
  return std::bit_cast<uint16_t>(static_cast<HalfFloat>(value));
}

inline float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t to_bfloat16(float value) {
  if (value != value) return std::signbit(value) ? 0xffc0 : 0x7fc0;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace poptorch::support
