// Infinities and nan, which JSON does not have, are objects such as {"float":"inf"}.
#include "frontends/torch/tracer/calls/json.hpp"

#include <charconv>
#include <cmath>
#include <limits>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json value() {
    skip();
    switch (peek()) {
      case '[':
        return list();
      case '{':
        return object();
      case '"':
        return Json(string());
      case 't':
        return word("true", Json(true));
      case 'f':
        return word("false", Json(false));
      case 'n':
        return word("null", Json());
      default:
        return number();
    }
  }
  void finish() {
    skip();
    if (at_ != text_.size()) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw support::InternalError(str("[json] bad text at ", at_, ": ", text_));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    while (peek() == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  Json word(std::string_view expected, Json value) {
    if (text_.substr(at_, expected.size()) != expected) fail();
    at_ += expected.size();
    return value;
  }
  std::string string() {
    std::string result;
    for (++at_; peek() != '"'; ++at_) {
      if (peek() == '\\') ++at_;
      if (at_ >= text_.size()) fail();
      result += text_[at_];
    }
    ++at_;
    return result;
  }
  Json number() {
    const size_t end = std::min(text_.find_first_of(",]} ", at_), text_.size());
    const std::string_view token = text_.substr(at_, end - at_);
    at_ = end;
    int64_t integer = 0;
    const auto* last = token.data() + token.size();
    if (auto [p, e] = std::from_chars(token.data(), last, integer); e == std::errc() && p == last) {
      return Json(integer);
    }
    double real = 0;
    if (auto [p, e] = std::from_chars(token.data(), last, real); e != std::errc() || p != last) {
      fail();
    }
    return Json(real);
  }
  // Limits the recursion that reads nested values. No argument nests so deeply.
  void enter() {
    constexpr int kDeepest = 64;
    if (++depth_ > kDeepest) fail();
    ++at_;
  }
  Json list() {
    JsonList items;
    enter();
    while (!take(']')) {
      if (!items.empty() && !take(',')) fail();
      items.push_back(value());
    }
    --depth_;
    return Json(std::move(items));
  }
  Json object() {
    JsonObject entries;
    enter();
    while (!take('}')) {
      if (!entries.empty() && !take(',')) fail();
      skip();
      std::string key = string();
      if (!take(':')) fail();
      entries.emplace_back(std::move(key), value());
    }
    --depth_;
    if (entries.size() == 1 && entries[0].first == "float") return special(entries[0].second);
    return Json(std::move(entries));
  }
  static Json special(const Json& text) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto& name = text.get<std::string>();
    return Json(name == "inf" ? kInfinity : name == "-inf" ? -kInfinity : std::nan(""));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

struct Printer {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    const std::string text = support::float_text(value);
    return std::isfinite(value) ? text : str("{\"float\":\"", text, "\"}");
  }
  std::string operator()(const std::string& value) const { return support::quoted(value); }
  std::string operator()(const JsonList& items) const {
    std::vector<std::string> parts;
    for (const Json& item : items) parts.push_back(json_text(item));
    return str("[", support::join(parts, ","), "]");
  }
  std::string operator()(const JsonObject& entries) const {
    std::vector<std::string> parts;
    for (const auto& [key, item] : entries) {
      parts.push_back(str(support::quoted(key), ":", json_text(item)));
    }
    return str("{", support::join(parts, ","), "}");
  }
};

}  // namespace

const Json* Json::find(std::string_view key) const {
  const auto* entries = std::get_if<JsonObject>(this);
  if (!entries) return nullptr;
  for (const auto& [name, value] : *entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Json::refuse_type() const {
  throw support::InternalError(
      str("[json] a value has another type than expected: ", json_text(*this)));
}

std::string json_text(const Json& value) {
  return std::visit(
      Printer{}, static_cast<const std::variant<std::monostate, bool, int64_t, double, std::string,
                                                JsonList, JsonObject>&>(value));
}

Json parse_json(std::string_view text) {
  Parser parser(text);
  Json result = parser.value();
  parser.finish();
  return result;
}

}  // namespace poptorch::frontend
