// The text of a custom op's attributes, which is one attribute of the op in the IR. It is sorted,
// so that equal dictionaries are equal ops.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <sstream>

#include "ir/parse.hpp"
#include "ops/custom_ops.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using ir::AttrType;
using support::str;
using support::UserError;

void check_float(double value) {
  if (std::isnan(value) || std::fabs(value) <= FLT_MAX) return;
  // The number is printed as C++ does, as in PopTorch's wording.
  std::ostringstream number;
  number << value;
  throw UserError(
      str(number.str(), " is too ", value > 0 ? "high" : "low", " for a Popart float attribute."));
}

void check_text(const std::string& text) {
  if (text.find('\0') == std::string::npos) return;
  throw UserError(str("[custom_op] attribute text ", support::quoted(text),
                      " holds a zero byte, which would end it. Leave it out."));
}

void check_value(const ir::Attr& value) {
  if (const auto* number = std::get_if<double>(&value)) check_float(*number);
  if (const auto* text = std::get_if<std::string>(&value)) check_text(*text);
  if (const auto* numbers = std::get_if<ir::Floats>(&value)) {
    for (double one : *numbers) check_float(one);
  }
  if (const auto* texts = std::get_if<ir::Strings>(&value)) {
    for (const std::string& one : *texts) check_text(one);
  }
}

bool is_allowed(AttrType type) {
  return type == AttrType::kInt || type == AttrType::kInts || type == AttrType::kFloat ||
         type == AttrType::kFloats || type == AttrType::kString || type == AttrType::kStrings;
}

void check_names(CustomAttrs& attrs) {
  std::sort(attrs.begin(), attrs.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < attrs.size(); ++i) {
    check_text(attrs[i].first);
    check_value(attrs[i].second);
    if (i > 0 && attrs[i].first == attrs[i - 1].first) {
      throw UserError(str("[custom_op] attribute '", attrs[i].first, "' is given twice."));
    }
  }
}

}  // namespace

std::string custom_attrs_text(CustomAttrs attrs) {
  check_names(attrs);
  std::string text = "{";
  for (const auto& [name, value] : attrs) {
    if (text.size() > 1) text += ", ";
    text += support::quoted(name) + ": " + ir::attr_text(value);
  }
  return text + "}";
}

CustomAttrs parse_custom_attrs(const std::string& text) {
  ir::Lexer lexer(text, "the attributes of a custom op");
  CustomAttrs attrs;
  lexer.expect("{");
  while (!lexer.accept("}")) {
    if (!attrs.empty()) lexer.expect(",");
    std::string name = lexer.string("an attribute's name");
    lexer.expect(":");
    const ir::Token place = lexer.peek();
    ir::Attr value = ir::parse_attr(lexer);
    if (!is_allowed(ir::type_of(value))) {
      lexer.fail_at(place, "expected floats, integers or strings.");
    }
    attrs.emplace_back(std::move(name), std::move(value));
  }
  if (lexer.peek().kind != ir::Token::Kind::kEnd) lexer.fail("expected nothing more");
  check_names(attrs);
  return attrs;
}

}  // namespace poptorch::ops
