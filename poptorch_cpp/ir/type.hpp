// Element types, shapes and tensor types. Text: `f32[16,784]`, `i32[]`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poptorch::ir {

enum class DType : uint8_t {
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF8_143,
  kF8_152,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8_E4M3FN,
  kF8_E5M2,
};

std::string_view name(DType dtype);  // "f32"
std::optional<DType> dtype_from_name(std::string_view name);
int64_t size_of(DType dtype);  // bytes of one element
bool is_float(DType dtype);    // f8, f16, bf16, f32, f64
bool is_half(DType dtype);     // f16, bf16
bool is_float8(DType dtype);
bool is_integer(DType dtype);  // signed and unsigned, not bool
bool is_signed(DType dtype);
bool is_complex(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

using Shape = std::vector<int64_t>;

// Limits a tensor's dimensions and elements. Sums of bytes over a whole program fit 64 bits.
constexpr size_t kMaxRank = 64;
constexpr int64_t kMaxElements = int64_t{1} << 36;

int64_t element_count(const Shape& shape);  // 1 for a scalar
Shape row_major_strides(const Shape& shape);
// Returns the NumPy broadcast of two shapes; nullopt if they do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);
std::string shape_text(const Shape& shape);  // "[16, 784]", as users see it

struct Type {
  DType dtype = DType::kF32;
  Shape shape;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t elements() const { return element_count(shape); }
  int64_t bytes() const { return elements() * size_of(dtype); }
  bool operator==(const Type&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Type& type);  // "f32[16,784]"

// Returns why a tensor cannot have this shape, as a sentence; empty if it can. Sizes of zero do not
// excuse the others.
std::string defect_of(const Shape& shape);

}  // namespace poptorch::ir
