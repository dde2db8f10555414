// Attribute values of ops: plain data, comparable, printable, and the sorted map that holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/type.hpp"
#include "support/symbol.hpp"

namespace poptorch::ir {

using support::Symbol;

// A constant tensor: dense row-major elements, shared and never changed.
class Literal {
 public:
  Literal() : Literal(Type{}, std::vector<std::byte>(4)) {}
  // `data` holds type.bytes() bytes.
  Literal(Type type, std::vector<std::byte> data);
  // A literal of one element, `value` converted to `dtype` (integers truncate, floats round).
  static Literal scalar(DType dtype, double value);
  static Literal scalar(DType dtype, int64_t value);

  const Type& type() const { return type_; }
  const std::byte* data() const { return data_->data(); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_->data());
  }
  // Returns whether elements can be read as numbers: float8 is known by its bits, complex ones are
  // pairs.
  bool has_numbers() const {
    return !is_complex(type_.dtype) && !(is_float(type_.dtype) && size_of(type_.dtype) == 1);
  }
  // Returns element `index` as a double (integers beyond 2^53 lose low bits; use integer_at for
  // those).
  double number_at(int64_t index) const;
  int64_t integer_at(int64_t index) const;
  bool operator==(const Literal& other) const;  // same type and same bits

 private:
  Type type_;
  std::shared_ptr<const std::vector<std::byte>> data_;
};

// A graph of the same module, by name.
struct GraphRef {
  Symbol name;
  bool operator==(const GraphRef&) const = default;
};

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using Strings = std::vector<std::string>;

// The order of alternatives is that of AttrType.
using Attr = std::variant<bool, int64_t, double, std::string, DType, Ints, Floats, Strings, Literal,
                          GraphRef>;

enum class AttrType : uint8_t {
  kBool,
  kInt,
  kFloat,
  kString,
  kDType,
  kInts,
  kFloats,
  kStrings,
  kLiteral,
  kGraph,
};
std::string_view name(AttrType type);
inline AttrType type_of(const Attr& attr) { return static_cast<AttrType>(attr.index()); }

// Prints `2`, `0.5`, `"mean"`, `f16`, `[1, 2]`, `@body`, `dense<f32[2]: 1.0, 2.0>`; parses back
// exactly.
std::string attr_text(const Attr& attr);
std::string graph_text(Symbol name);           // `@body`, or `@"my body"` for other names
bool same_attr(const Attr& a, const Attr& b);  // floats by bits, so that nan equals nan

// Attributes by name, sorted.
class Attrs {
 public:
  using Entry = std::pair<Symbol, Attr>;

  Attrs() = default;
  Attrs(std::initializer_list<Entry> entries) {
    for (const auto& [key, value] : entries) set(key, value);
  }

  const Attr* find(Symbol key) const;
  void set(Symbol key, Attr value);
  void erase(Symbol key);
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool operator==(const Attrs& other) const;

 private:
  std::vector<Entry> entries_;
};

// Convert a double to and from the bits of the small floats, rounding to nearest even.
uint16_t to_half_bits(double value);
double from_half_bits(uint16_t bits);
uint16_t to_bfloat16_bits(double value);
double from_bfloat16_bits(uint16_t bits);

}  // namespace poptorch::ir
