// Each dtype has one loop, without dispatch inside.
#include "reference/convert.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ir/attr.hpp"
#include "support/error.hpp"
#include "support/float8.hpp"
#include "support/strings.hpp"

namespace poptorch::reference {
namespace {

using ir::DType;
using support::Float8;
using support::Float8_143;
using support::Float8_152;
using support::Float8_e4m3fn;
using support::Float8_e5m2;
using support::SignedFloat8;

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

const std::array<float, 65536>& half_values() {
  static const auto* table = [] {
    auto* values = new std::array<float, 65536>;
    for (uint32_t i = 0; i < 65536; ++i) {
      (*values)[i] = static_cast<float>(ir::from_half_bits(static_cast<uint16_t>(i)));
    }
    return values;
  }();
  return *table;
}

// Rounds `value` to nearest even on the grid of a float with `digits` significant bits whose
// smallest normal exponent is `least`. Adding and subtracting 1.5 * 2^52 units rounds to units.
double on_grid(double value, int digits, int least) {
  const int exponent =
      std::max(static_cast<int>((std::bit_cast<uint64_t>(value) >> 52) & 0x7ff) - 1023, least);
  if (exponent > 127) return value;  // overflows, infinite or NaN
  const double unit =
      std::bit_cast<double>(static_cast<uint64_t>(exponent - digits + 1 + 1023) << 52);
  const double shift = 0x1.8p52 * unit;
  return std::copysign((value + shift) - shift, value);
}

uint16_t to_half(double value) {
  const double grid = on_grid(value, 11, -14);
  const double magnitude = std::fabs(grid);
  if (!(magnitude >= 0x1p-14 && magnitude <= 65504)) return ir::to_half_bits(value);
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(grid));
  return static_cast<uint16_t>(((bits >> 16) & 0x8000) | (((bits >> 13) & 0x3ffff) - (112 << 10)));
}

uint16_t to_bfloat16(double value) {
  if (!std::isfinite(value)) return ir::to_bfloat16_bits(value);
  const double grid = on_grid(value, 8, -126);
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(grid)) >> 16);
}

template <typename T>
double widen(T value) {
  return static_cast<double>(value);
}
double widen(Half value) { return half_values()[value.bits]; }
template <int mantissa, int bias>
double widen(Float8<mantissa, bias> value) {
  return value.value();
}
template <int mantissa, int bias, uint8_t infinity>
double widen(SignedFloat8<mantissa, bias, infinity> value) {
  return value.value();
}
double widen(BFloat16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

int64_t truncated(double value) {
  if (!(value > -0x1p63)) return INT64_MIN;  // NaN as well, as the hardware does
  if (value >= 0x1p63)
    return value >= 0x1p64 ? INT64_MIN : static_cast<int64_t>(static_cast<uint64_t>(value));
  return static_cast<int64_t>(value);
}

template <typename T>
void narrow(double value, T& out) {
  if constexpr (std::is_same_v<T, Half>) {
    out.bits = to_half(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    out.bits = to_bfloat16(value);
  } else if constexpr (requires { T::of(value); }) {
    out = T::of(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    out = value != 0;
  } else if constexpr (std::is_floating_point_v<T>) {
    out = static_cast<T>(value);
  } else {
    out = static_cast<T>(truncated(value));
  }
}

template <typename Visit>
void with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kBool:
      return visit(bool{});
    case DType::kI8:
      return visit(int8_t{});
    case DType::kI16:
      return visit(int16_t{});
    case DType::kI32:
      return visit(int32_t{});
    case DType::kI64:
      return visit(int64_t{});
    case DType::kU8:
      return visit(uint8_t{});
    case DType::kU16:
      return visit(uint16_t{});
    case DType::kU32:
      return visit(uint32_t{});
    case DType::kU64:
      return visit(uint64_t{});
    case DType::kF8_143:
      return visit(Float8_143{});
    case DType::kF8_152:
      return visit(Float8_152{});
    case DType::kF8_E4M3FN:
      return visit(Float8_e4m3fn{});
    case DType::kF8_E5M2:
      return visit(Float8_e5m2{});
    case DType::kF16:
      return visit(Half{});
    case DType::kBF16:
      return visit(BFloat16{});
    case DType::kF32:
      return visit(float{});
    case DType::kF64:
      return visit(double{});
    default:
      throw support::UnsupportedError(support::str("[kernel] there is no arithmetic on ", dtype,
                                                   ". Compute with real numbers."));
  }
}

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

}  // namespace

std::vector<double> to_doubles(DType dtype, const std::byte* data, int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  with_type(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      out[i] = widen(value);
    }
  });
  return out;
}

std::vector<int64_t> to_integers(DType dtype, const std::byte* data, int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  with_type(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      if constexpr (kIsInteger<T>) {
        out[i] = static_cast<int64_t>(value);
      } else {
        out[i] = truncated(widen(value));
      }
    }
  });
  return out;
}

void from_doubles(DType dtype, const double* values, int64_t count, std::byte* data) {
  with_type(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < count; ++i) {
      T value;
      narrow(values[i], value);
      std::memcpy(data + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
  });
}

void from_integers(DType dtype, const int64_t* values, int64_t count, std::byte* data) {
  with_type(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < count; ++i) {
      T value;
      if constexpr (kIsInteger<T> || std::is_floating_point_v<T>) {
        value = static_cast<T>(values[i]);
      } else {
        narrow(static_cast<double>(values[i]), value);
      }
      std::memcpy(data + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
  });
}

double rounded_to(DType dtype, double value) {
  std::byte bits[8];
  from_doubles(dtype, &value, 1, bits);
  return to_doubles(dtype, bits, 1)[0];
}

}  // namespace poptorch::reference
