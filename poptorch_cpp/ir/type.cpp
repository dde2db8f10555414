#include "ir/type.hpp"

#include <algorithm>
#include <array>
#include <ostream>

#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

struct DTypeRow {
  std::string_view name;
  int64_t size;
};

// Follows the order of the enumeration.
constexpr std::array<DTypeRow, 19> kRows = {{{"bool", 1},
                                             {"i8", 1},
                                             {"i16", 2},
                                             {"i32", 4},
                                             {"i64", 8},
                                             {"u8", 1},
                                             {"u16", 2},
                                             {"u32", 4},
                                             {"u64", 8},
                                             {"f8_143", 1},
                                             {"f8_152", 1},
                                             {"f16", 2},
                                             {"bf16", 2},
                                             {"f32", 4},
                                             {"f64", 8},
                                             {"c64", 8},
                                             {"c128", 16},
                                             {"f8_e4m3fn", 1},
                                             {"f8_e5m2", 1}}};

const DTypeRow& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t size_of(DType dtype) { return row(dtype).size; }
bool is_float8(DType dtype) {
  return dtype == DType::kF8_143 || dtype == DType::kF8_152 || dtype >= DType::kF8_E4M3FN;
}
bool is_float(DType dtype) {
  return is_float8(dtype) || (dtype >= DType::kF16 && dtype <= DType::kF64);
}
bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
bool is_integer(DType dtype) { return dtype >= DType::kI8 && dtype <= DType::kU64; }
bool is_signed(DType dtype) {
  return is_float(dtype) || is_complex(dtype) || (dtype >= DType::kI8 && dtype <= DType::kI64);
}
bool is_complex(DType dtype) { return dtype == DType::kC64 || dtype == DType::kC128; }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) return std::nullopt;
    out[out.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return out;
}

std::string defect_of(const Shape& shape) {
  if (shape.size() > kMaxRank) {
    return support::str("a tensor has at most ", kMaxRank, " dimensions, not ", shape.size(), ".");
  }
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 0) return support::str(shape_text(shape), " has a negative size.");
    if (size > 1 && elements > kMaxElements / size) {
      return support::str(shape_text(shape), " has more than ", kMaxElements, " elements.");
    }
    elements *= std::max<int64_t>(size, 1);
  }
  return "";
}

std::string shape_text(const Shape& shape) { return "[" + support::join(shape, ", ") + "]"; }

std::ostream& operator<<(std::ostream& out, const Type& type) {
  return out << type.dtype << '[' << support::join(type.shape, ",") << ']';
}

}  // namespace poptorch::ir
