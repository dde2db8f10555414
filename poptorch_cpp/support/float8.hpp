// 8-bit floats: f8_143 (4 bits of exponent, bias 8, largest 240) and f8_152 (5 bits, bias 16,
// largest 57344). 0x80 is the only NaN; there are neither infinities nor a negative zero, and
// denormals are kept. torch calls them float8_e4m3fnuz and float8_e5m2fnuz.
#pragma once

#include <cmath>
#include <cstdint>

namespace poptorch::support {

template <int mantissa, int bias>
struct Float8 {
  static constexpr uint8_t kNan = 0x80;
  static constexpr int kLeast = 1 - bias;  // exponent of denormals and of the smallest normals
  uint8_t bits;

  double value() const {
    if (bits == kNan) return NAN;
    const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
    const double size = exponent == 0
                            ? std::ldexp(fraction, kLeast - mantissa)
                            : std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
    return bits & 0x80 ? -size : size;
  }

  // To nearest, ties to even; what is too large becomes NaN.
  static Float8 of(double value) {
    if (!std::isfinite(value)) return {kNan};
    const double size = std::fabs(value);
    int exponent = size == 0 ? kLeast : std::ilogb(size);
    if (exponent < kLeast) exponent = kLeast;
    // In units of the last place; nearbyint rounds ties to even.
    const double units = std::nearbyint(std::ldexp(size, mantissa - exponent));
    // Codes of positive numbers count up in units, through denormals and from one exponent to the
    // next.
    const double code = units + static_cast<double>((exponent - kLeast) * (1 << mantissa));
    if (code > 0x7f) return {kNan};
    if (code == 0) return {0};
    return {static_cast<uint8_t>(static_cast<uint8_t>(code) | (value < 0 ? 0x80 : 0))};
  }
};

using Float8_143 = Float8<3, 8>;
using Float8_152 = Float8<2, 16>;

}  // namespace poptorch::support
