// 8-bit floats: f8_143 (4 bits of exponent, bias 8, largest 240) and f8_152 (5 bits, bias 16,
// largest 57344). 0x80 is the only NaN; there are neither infinities nor a negative zero, and
// denormals are kept. torch calls them float8_e4m3fnuz and float8_e5m2fnuz. Its float8_e4m3fn (bias
// 7, largest 448, no infinities) and float8_e5m2 (bias 15, largest 57344, infinities as in IEEE
// 754) have signed zeros and NaNs. Values too large for e4m3fn become its largest number.
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

  // Rounds to nearest, ties to even. Values that are too large become NaN.
  static Float8 of(double value) {
    if (!std::isfinite(value)) return {kNan};
    const double size = std::fabs(value);
    int exponent = size == 0 ? kLeast : std::ilogb(size);
    if (exponent < kLeast) exponent = kLeast;
    // The size in units of the last place; nearbyint rounds ties to even.
    const double units = std::nearbyint(std::ldexp(size, mantissa - exponent));
    // Codes of positive numbers count up in units, through denormals and from one exponent to the
    // next.
    const double code = units + static_cast<double>((exponent - kLeast) * (1 << mantissa));
    if (code > 0x7f) return {kNan};
    if (code == 0) return {0};
    return {static_cast<uint8_t>(static_cast<uint8_t>(code) | (value < 0 ? 0x80 : 0))};
  }
};

// `infinity` is the code of infinity, or of NaN for a format without infinities. Codes above it are
// NaN.
template <int mantissa, int bias, uint8_t infinity>
struct SignedFloat8 {
  static constexpr uint8_t kNan = 0x7f, kTooLarge = infinity == kNan ? infinity - 1 : infinity;
  static constexpr int kLeast = 1 - bias;
  uint8_t bits;

  double value() const {
    const int code = bits & 0x7f, exponent = code >> mantissa;
    const int fraction = code & ((1 << mantissa) - 1);
    double size = exponent == 0
                      ? std::ldexp(fraction, kLeast - mantissa)
                      : std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
    if (code >= infinity) size = code == infinity && infinity != kNan ? INFINITY : NAN;
    return bits & 0x80 ? -size : size;
  }

  // Rounds to nearest, ties to even.
  static SignedFloat8 of(double value) {
    const uint8_t sign = std::signbit(value) ? 0x80 : 0;
    const auto signed_code = [&](int code) {
      return SignedFloat8{static_cast<uint8_t>(code | sign)};
    };
    if (std::isnan(value)) return signed_code(kNan);
    if (std::isinf(value)) return signed_code(kTooLarge);
    const double size = std::fabs(value);
    int exponent = size == 0 ? kLeast : std::ilogb(size);
    if (exponent < kLeast) exponent = kLeast;
    const double units = std::nearbyint(std::ldexp(size, mantissa - exponent));
    const double code = units + static_cast<double>((exponent - kLeast) * (1 << mantissa));
    return signed_code(code >= infinity ? kTooLarge : static_cast<int>(code));
  }
};

using Float8_e4m3fn = SignedFloat8<3, 7, 0x7f>;
using Float8_e5m2 = SignedFloat8<2, 15, 0x7c>;
using Float8_143 = Float8<3, 8>;
using Float8_152 = Float8<2, 16>;

}  // namespace poptorch::support
