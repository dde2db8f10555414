// The parser of types and attribute values.
#include <algorithm>

#include "ir/parse.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::str;

// A guard against text that asks for memory it does not fill.
constexpr int64_t kMaxElements = int64_t{1} << 40;

void append_number(std::vector<std::byte>& data, DType dtype, double value) {
  Literal one = Literal::scalar(dtype, value);
  data.insert(data.end(), one.data(), one.data() + size_of(dtype));
}

void parse_element(Lexer& lexer, DType dtype, std::vector<std::byte>& data) {
  if (dtype == DType::kBool) {
    bool value = lexer.accept("true");
    if (!value) lexer.expect("false");
    data.push_back(static_cast<std::byte>(value));
  } else if (is_complex(dtype)) {
    DType part = dtype == DType::kC64 ? DType::kF32 : DType::kF64;
    lexer.expect("(");
    append_number(data, part, lexer.number("a real part"));
    append_number(data, part, lexer.number("an imaginary part"));
    lexer.expect(")");
  } else if (is_float(dtype) && size_of(dtype) > 1) {
    append_number(data, dtype, lexer.number("an element"));
  } else {
    // Integers, and float8 by its bits.
    int64_t value = lexer.integer("an element");
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    data.insert(data.end(), bytes, bytes + size_of(dtype));
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
    if (lexer.peek().kind == Token::Kind::kString) {
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
  Type type;
  type.dtype = parse_dtype(lexer);
  lexer.expect("[");
  int64_t elements = 1;
  while (!lexer.accept("]")) {
    if (!type.shape.empty()) lexer.expect(",");
    int64_t size = lexer.integer("a dimension");
    if (size < 0 || (size > 0 && elements > kMaxElements / size)) {
      lexer.fail("a dimension is negative or too large, before which the parser stopped");
    }
    elements *= std::max<int64_t>(size, 1);
    type.shape.push_back(size);
  }
  return type;
}

Attr parse_attr(Lexer& lexer, std::optional<AttrType> expected) {
  const Token& token = lexer.peek();
  if (token.kind == Token::Kind::kString) return lexer.string("a value");
  if (lexer.accept("true")) return true;
  if (lexer.accept("false")) return false;
  if (lexer.accept("[")) return parse_list(lexer, expected);
  if (lexer.accept("@")) return GraphRef{lexer.name("a graph's name")};
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
    std::string key = lexer.name("an attribute's name");
    if (attrs.find(key)) lexer.fail(str("attribute '", key, "' stands twice, the second time"));
    lexer.expect("=");
    const AttrDef* row = def ? def->find_attr(key) : nullptr;
    attrs.set(key, parse_attr(lexer, row ? std::optional(row->type) : std::nullopt));
  }
  return attrs;
}

}  // namespace poptorch::ir
