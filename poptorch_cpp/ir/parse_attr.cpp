// The parser of types and attribute values.
#include <charconv>
#include <cmath>

#include "ir/op_def.hpp"
#include "ir/parse.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::str;

// Exceeds the number of attributes of every row.
constexpr size_t kMaxAttrs = 64;

// Parses "nan." and the bits of a nan of `dtype`, in hexadecimal.
Literal parse_nan(Lexer& lexer, DType dtype) {
  const Token place = lexer.next();
  uint64_t bits = 0;
  const char *begin = place.text.data() + 4, *end = place.text.data() + place.text.size();
  const auto parsed = std::from_chars(begin, end, bits, 16);
  const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
  const auto size = static_cast<size_t>(size_of(dtype));
  Literal one(Type{dtype, {}}, {bytes, bytes + size});
  const bool fits = size == sizeof bits || bits >> (8 * size) == 0;
  if (parsed.ec != std::errc() || parsed.ptr != end || !fits || !std::isnan(one.number_at(0))) {
    lexer.fail_at(place, str("expected the bits of a nan of ", dtype, "."));
  }
  return one;
}

void append_number(Lexer& lexer, std::vector<std::byte>& data, DType dtype, std::string_view what) {
  const Token place = lexer.peek();
  Literal one;
  if (place.kind == Token::Kind::kName && place.text.starts_with("nan.")) {
    one = parse_nan(lexer, dtype);
  } else {
    const double value = lexer.number(what);
    one = Literal::scalar(dtype, value);
    if (std::isfinite(value) && !std::isfinite(one.number_at(0))) {
      lexer.fail_at(place, str(place.text, " is beyond the numbers of ", dtype, "."));
    }
  }
  data.insert(data.end(), one.data(), one.data() + size_of(dtype));
}

// Parses integers, and float8 by its bits.
void append_integer(Lexer& lexer, std::vector<std::byte>& data, DType dtype) {
  const int bits = static_cast<int>(8 * size_of(dtype));
  uint64_t value = 0;
  if (dtype == DType::kU64) {
    value = lexer.natural("an element");
  } else if (is_integer(dtype) && is_signed(dtype)) {
    const int64_t most = INT64_MAX >> (64 - bits);
    value = static_cast<uint64_t>(lexer.integer("an element", -most - 1, most));
  } else {
    value = static_cast<uint64_t>(lexer.integer("an element", 0, (int64_t{1} << bits) - 1));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  data.insert(data.end(), bytes, bytes + size_of(dtype));
}

void parse_element(Lexer& lexer, DType dtype, std::vector<std::byte>& data) {
  if (dtype == DType::kBool) {
    bool value = lexer.accept("true");
    if (!value) lexer.expect("false");
    data.push_back(static_cast<std::byte>(value));
  } else if (is_complex(dtype)) {
    DType part = dtype == DType::kC64 ? DType::kF32 : DType::kF64;
    lexer.expect("(");
    append_number(lexer, data, part, "a real part");
    append_number(lexer, data, part, "an imaginary part");
    lexer.expect(")");
  } else if (is_float(dtype) && size_of(dtype) > 1) {
    append_number(lexer, data, dtype, "an element");
  } else {
    append_integer(lexer, data, dtype);
  }
}

Literal parse_literal(Lexer& lexer) {
  lexer.expect("<");
  Type type = parse_type(lexer);
  lexer.expect(":");
  std::vector<std::byte> data;
  while (!lexer.at(">")) {
    if (!data.empty()) lexer.expect(",");
    parse_element(lexer, type.dtype, data);
    if (static_cast<int64_t>(data.size()) > type.bytes()) break;
  }
  if (static_cast<int64_t>(data.size()) != type.bytes()) {
    lexer.fail(str("expected ", type.elements(), " elements of ", type));
  }
  lexer.expect(">");
  return Literal(type, std::move(data));
}

Attr parse_list(Lexer& lexer, std::optional<AttrType> expected) {
  Strings strings;
  Floats floats;
  Ints ints;
  bool is_float_list = expected == AttrType::kFloats;
  while (!lexer.accept("]")) {
    if (!strings.empty() || !floats.empty()) lexer.expect(",");
    const bool is_string = lexer.peek().kind == Token::Kind::kString;
    if (is_string ? !floats.empty() : !strings.empty())
      lexer.fail("expected an item like the others");
    if (is_string) {
      strings.push_back(lexer.string("an item"));
      continue;
    }
    const std::string& text = lexer.peek().text;
    if (text.find_first_of(".ein") != std::string::npos || text == "-") is_float_list = true;
    if (is_float_list) {
      floats.push_back(lexer.number("an item"));
    } else {
      ints.push_back(lexer.integer("an item"));
      floats.push_back(static_cast<double>(ints.back()));
    }
  }
  if (!strings.empty() || expected == AttrType::kStrings) return strings;
  if (is_float_list) return floats;
  return ints;
}

}  // namespace

DType parse_dtype(Lexer& lexer) {
  auto dtype = dtype_from_name(lexer.peek().text);
  if (!dtype) lexer.fail("expected an element type");
  lexer.next();
  return *dtype;
}

Type parse_type(Lexer& lexer) {
  const Token place = lexer.peek();
  Type type;
  type.dtype = parse_dtype(lexer);
  lexer.expect("[");
  while (!lexer.accept("]")) {
    if (!type.shape.empty()) lexer.expect(",");
    type.shape.push_back(lexer.integer("a dimension"));
  }
  const std::string defect = defect_of(type.shape);
  if (!defect.empty()) lexer.fail_at(place, defect);
  return type;
}

Attr parse_attr(Lexer& lexer, std::optional<AttrType> expected) {
  const Token& token = lexer.peek();
  if (token.kind == Token::Kind::kString) return lexer.string("a value");
  if (lexer.accept("true")) return true;
  if (lexer.accept("false")) return false;
  if (lexer.accept("[")) return parse_list(lexer, expected);
  if (lexer.accept("@")) return GraphRef{parse_graph_name(lexer)};
  if (lexer.accept("dense")) return parse_literal(lexer);
  bool number = token.kind == Token::Kind::kNumber;
  bool float_text = token.text.find_first_of(".e") != std::string::npos;
  if (number && !float_text && expected != AttrType::kFloat) return lexer.integer("a value");
  if (number || lexer.at("inf") || lexer.at("nan") || lexer.at("-")) return lexer.number("a value");
  return parse_dtype(lexer);
}

Attrs parse_attrs(Lexer& lexer, const OpDef* def) {
  Attrs attrs;
  if (!lexer.accept("{")) return attrs;
  while (!lexer.accept("}")) {
    if (!attrs.empty()) lexer.expect(",");
    const Token place = lexer.peek();
    const std::string key = lexer.name("an attribute's name");
    if (attrs.find(key)) lexer.fail_at(place, str("attribute '", key, "' is given twice."));
    if (attrs.size() == kMaxAttrs) lexer.fail_at(place, "there are too many attributes.");
    lexer.expect("=");
    const AttrDef* row = def ? def->find_attr(key) : nullptr;
    attrs.set(key, parse_attr(lexer, row ? std::optional(row->type) : std::nullopt));
  }
  return attrs;
}

std::string parse_graph_name(Lexer& lexer) {
  const bool is_quoted = lexer.peek().kind == Token::Kind::kString;
  return is_quoted ? lexer.string("a graph's name") : lexer.name("a graph's name");
}

std::pair<std::string, int> parse_location(Lexer& lexer) {
  lexer.expect("(");
  std::string file = lexer.string("a file");
  lexer.expect(":");
  const auto line = static_cast<int>(lexer.integer("a line", 0, INT32_MAX));
  lexer.expect(")");
  return {std::move(file), line};
}

}  // namespace poptorch::ir
