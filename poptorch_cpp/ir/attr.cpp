// Literals, attribute text and small-float conversions.
#include "ir/attr.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "support/error.hpp"
#include "support/float8.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

template <typename T>
T load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
std::vector<std::byte> bytes_of(T value) {
  std::vector<std::byte> out(sizeof(T));
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// Rounds a double to a float of `exponent_bits` and `mantissa_bits`, ties to even.
uint16_t to_small_bits(double value, int exponent_bits, int mantissa_bits) {
  const uint16_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  if (std::isnan(value)) return sign | infinity | (1u << (mantissa_bits - 1));
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  exponent = std::max(exponent - 1, 1 - bias);
  // In units of the last place of this binade; nearbyint rounds ties to even.
  double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  // A normal number's units carry the implicit one, which adds up with the exponent field.
  auto bits = static_cast<int64_t>(units) + (int64_t{exponent + bias - 1} << mantissa_bits);
  return sign | static_cast<uint16_t>(std::min<int64_t>(bits, infinity));
}

double from_small_bits(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  double magnitude;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = mantissa ? std::nan("") : INFINITY;
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return (bits >> (exponent_bits + mantissa_bits)) & 1 ? -magnitude : magnitude;
}

std::string integer_text(const Literal& literal, int64_t index) {
  if (literal.type().dtype == DType::kU64) {
    return std::to_string(static_cast<uint64_t>(literal.integer_at(index)));
  }
  return std::to_string(literal.integer_at(index));
}

template <typename T>
std::string hex_text(T bits) {
  char text[24];
  return std::string(text, std::to_chars(text, text + sizeof text, uint64_t{bits}, 16).ptr);
}

// Prints a number of `dtype` exactly. A nan whose bits are not those of "nan" prints them:
// "nan.7fc1".
std::string float_element_text(DType dtype, const std::byte* data, int64_t index) {
  if (dtype == DType::kF64) {
    const auto value = load<double>(data, index);
    const auto bits = load<uint64_t>(data, index);
    const bool other = std::isnan(value) && bits != std::bit_cast<uint64_t>(double{NAN});
    return other ? "nan." + hex_text(bits) : support::float_text(value);
  }
  if (dtype == DType::kF32) {
    const auto value = load<float>(data, index);
    const auto bits = load<uint32_t>(data, index);
    const bool other = std::isnan(value) && bits != std::bit_cast<uint32_t>(NAN);
    return other ? "nan." + hex_text(bits) : support::float32_text(value);
  }
  const auto bits = load<uint16_t>(data, index);
  const bool half = dtype == DType::kF16;
  const double value = half ? from_half_bits(bits) : from_bfloat16_bits(bits);
  const bool other =
      std::isnan(value) && bits != (half ? to_half_bits(NAN) : to_bfloat16_bits(NAN));
  return other ? "nan." + hex_text(bits) : support::float_text(value);
}

std::string element_text(const Literal& literal, int64_t index) {
  DType dtype = literal.type().dtype;
  if (dtype == DType::kBool) return literal.integer_at(index) ? "true" : "false";
  if (is_complex(dtype)) {
    const DType part = dtype == DType::kC128 ? DType::kF64 : DType::kF32;
    return "(" + float_element_text(part, literal.data(), 2 * index) + " " +
           float_element_text(part, literal.data(), 2 * index + 1) + ")";
  }
  if (is_float8(dtype)) {
    return std::to_string(load<uint8_t>(literal.data(), index));  // as bits
  }
  if (is_float(dtype)) return float_element_text(dtype, literal.data(), index);
  return integer_text(literal, index);
}

struct AttrPrinter {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return support::float_text(v); }
  std::string operator()(const std::string& v) const { return support::quoted(v); }
  std::string operator()(DType v) const { return std::string(name(v)); }
  std::string operator()(const Ints& v) const { return "[" + support::join(v, ", ") + "]"; }
  std::string operator()(const Floats& v) const {
    std::vector<std::string> items;
    for (double item : v) items.push_back(support::float_text(item));
    return "[" + support::join(items, ", ") + "]";
  }
  std::string operator()(const Strings& v) const {
    std::vector<std::string> items;
    for (const auto& item : v) items.push_back(support::quoted(item));
    return "[" + support::join(items, ", ") + "]";
  }
  std::string operator()(const Literal& v) const {
    std::vector<std::string> items;
    items.reserve(v.type().elements());
    for (int64_t i = 0; i < v.type().elements(); ++i) items.push_back(element_text(v, i));
    return support::str("dense<", v.type(), ": ", support::join(items, ", "), ">");
  }
  std::string operator()(const GraphRef& v) const { return graph_text(v.name); }
};

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

Literal::Literal(Type type, std::vector<std::byte> data) : type_(std::move(type)) {
  data.reserve(1);  // so that data() is an address even when copied from
  data_ = std::make_shared<const std::vector<std::byte>>(std::move(data));
  if (static_cast<int64_t>(data_->size()) != type_.bytes()) {
    throw support::InternalError(support::str("[literal] ", type_, " needs ", type_.bytes(),
                                              " bytes but got ", data_->size()));
  }
}

Literal Literal::scalar(DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return {Type{dtype, {}}, bytes_of(value)};
    case DType::kF32:
      return {Type{dtype, {}}, bytes_of(static_cast<float>(value))};
    case DType::kF16:
      return {Type{dtype, {}}, bytes_of(to_half_bits(value))};
    case DType::kBF16:
      return {Type{dtype, {}}, bytes_of(to_bfloat16_bits(value))};
    case DType::kF8_143:
      return {Type{dtype, {}}, bytes_of(support::Float8_143::of(value))};
    case DType::kF8_152:
      return {Type{dtype, {}}, bytes_of(support::Float8_152::of(value))};
    case DType::kF8_E4M3FN:
      return {Type{dtype, {}}, bytes_of(support::Float8_e4m3fn::of(value))};
    case DType::kF8_E5M2:
      return {Type{dtype, {}}, bytes_of(support::Float8_e5m2::of(value))};
    case DType::kBool:
      return {Type{dtype, {}}, bytes_of(static_cast<uint8_t>(value != 0))};
    case DType::kC64: {
      float parts[2] = {static_cast<float>(value), 0};
      return {Type{dtype, {}}, bytes_of(std::bit_cast<uint64_t>(parts))};
    }
    case DType::kC128: {
      std::vector<std::byte> data(16);
      std::memcpy(data.data(), &value, 8);
      return {Type{dtype, {}}, std::move(data)};
    }
    default:
      return scalar(dtype, static_cast<int64_t>(value));
  }
}

Literal Literal::scalar(DType dtype, int64_t value) {
  if (is_float(dtype) || is_complex(dtype)) return scalar(dtype, static_cast<double>(value));
  if (dtype == DType::kBool) value = value != 0;
  std::vector<std::byte> data(size_of(dtype));
  std::memcpy(data.data(), &value, data.size());  // little endian: the low bytes come first
  return {Type{dtype, {}}, std::move(data)};
}

double Literal::number_at(int64_t index) const {
  switch (type_.dtype) {
    case DType::kF64:
      return load<double>(data(), index);
    case DType::kF32:
      return load<float>(data(), index);
    case DType::kF16:
      return from_half_bits(load<uint16_t>(data(), index));
    case DType::kBF16:
      return from_bfloat16_bits(load<uint16_t>(data(), index));
    case DType::kU64:
      return static_cast<double>(load<uint64_t>(data(), index));
    default:
      return static_cast<double>(integer_at(index));
  }
}

int64_t Literal::integer_at(int64_t index) const {
  switch (type_.dtype) {
    case DType::kBool:
    case DType::kU8:
      return load<uint8_t>(data(), index);
    case DType::kI8:
      return load<int8_t>(data(), index);
    case DType::kI16:
      return load<int16_t>(data(), index);
    case DType::kU16:
      return load<uint16_t>(data(), index);
    case DType::kI32:
      return load<int32_t>(data(), index);
    case DType::kU32:
      return load<uint32_t>(data(), index);
    case DType::kI64:
    case DType::kU64:
      return load<int64_t>(data(), index);
    default:
      if (is_float(type_.dtype) && size_of(type_.dtype) > 1) {
        return static_cast<int64_t>(number_at(index));
      }
      throw support::InternalError(support::str("[literal] no integer in ", type_));
  }
}

bool Literal::operator==(const Literal& other) const {
  return type_ == other.type_ && (data_ == other.data_ || *data_ == *other.data_);
}

std::string_view name(AttrType type) {
  static constexpr std::string_view kNames[] = {"bool", "int",    "float",   "string", "dtype",
                                                "ints", "floats", "strings", "dense",  "graph"};
  return kNames[static_cast<size_t>(type)];
}

std::string attr_text(const Attr& attr) { return std::visit(AttrPrinter{}, attr); }

std::string graph_text(Symbol name) {
  const std::string& text = name.text();
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool is_plain =
      !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
        return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/';
      });
  return "@" + (is_plain ? text : support::quoted(text));
}

bool same_attr(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a)) return same_bits(*x, std::get<double>(b));
  if (const auto* x = std::get_if<Floats>(&a)) {
    const auto& y = std::get<Floats>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), same_bits);
  }
  return a == b;
}

const Attr* Attrs::find(Symbol key) const {
  for (const auto& entry : entries_) {
    if (entry.first == key) return &entry.second;
  }
  return nullptr;
}

void Attrs::set(Symbol key, Attr value) {
  auto at = std::find_if(entries_.begin(), entries_.end(),
                         [&](const Entry& entry) { return !(entry.first < key); });
  if (at != entries_.end() && at->first == key) {
    at->second = std::move(value);
  } else {
    entries_.insert(at, {key, std::move(value)});
  }
}

void Attrs::erase(Symbol key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.first == key; });
}

bool Attrs::operator==(const Attrs& other) const {
  return std::equal(begin(), end(), other.begin(), other.end(), [](const Entry& a, const Entry& b) {
    return a.first == b.first && same_attr(a.second, b.second);
  });
}

uint16_t to_half_bits(double value) { return to_small_bits(value, 5, 10); }
double from_half_bits(uint16_t bits) { return from_small_bits(bits, 5, 10); }
uint16_t to_bfloat16_bits(double value) { return to_small_bits(value, 8, 7); }
double from_bfloat16_bits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace poptorch::ir
