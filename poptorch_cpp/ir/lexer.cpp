#include "ir/lexer.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::str;

bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool name_part(char c) { return name_start(c) || digit(c) || c == '.' || c == '/'; }
bool number_part(char c) { return digit(c) || c == '.' || c == 'e' || c == 'E'; }

int hex_value(char c) {
  if (digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns whether a byte of a UTF-8 character is not its first.
bool is_continued(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Shortens a token for a message, since it may be a text of any length.
std::string shortened(const std::string& text) {
  constexpr size_t kLongest = 60;
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while (is_continued(text[end])) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {
  const size_t bad = support::find_non_utf8(text);
  if (bad != std::string_view::npos) {
    const std::string_view before = text.substr(0, bad);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t column = bad - (before.find_last_of('\n') + 1) + 1;
    throw support::UserError(
        str("[parse] ", origin, ":", line, ":", column, ": the text is not UTF-8 from here on."));
  }
  advance();
}

Token Lexer::next() {
  Token out = std::move(token_);
  advance();
  return out;
}

bool Lexer::at(std::string_view text) const {
  return (token_.kind == Token::Kind::kPunct || token_.kind == Token::Kind::kName) &&
         token_.text == text;
}

bool Lexer::accept(std::string_view text) {
  if (!at(text)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view text) {
  if (!accept(text)) fail(str("expected '", text, "'"));
}

std::string Lexer::name(std::string_view what) {
  // Names after a sigil may be all digits (%0).
  if (token_.kind != Token::Kind::kName && token_.kind != Token::Kind::kNumber) {
    fail(str("expected ", what));
  }
  return next().text;
}

std::string Lexer::string(std::string_view what) {
  if (token_.kind != Token::Kind::kString) fail(str("expected ", what, " in quotes"));
  return next().text;
}

template <typename T>
T Lexer::whole(const std::string& expected) {
  T value = 0;
  const char* end = token_.text.data() + token_.text.size();
  auto parsed = std::from_chars(token_.text.data(), end, value);
  if (token_.kind != Token::Kind::kNumber || parsed.ptr != end || parsed.ec != std::errc()) {
    fail(expected);
  }
  return value;
}

int64_t Lexer::integer(std::string_view what, int64_t least, int64_t most) {
  const bool any = least == INT64_MIN && most == INT64_MAX;
  const std::string range =
      any ? "an integer of 64 bits" : str("an integer from ", least, " to ", most);
  const auto value = whole<int64_t>(str("expected ", what, ", ", range));
  if (value < least || value > most) fail(str("expected ", what, ", ", range));
  advance();
  return value;
}

uint64_t Lexer::natural(std::string_view what) {
  const auto value = whole<uint64_t>(str("expected ", what, ", a natural number of 64 bits"));
  advance();
  return value;
}

double Lexer::number(std::string_view what) {
  bool negative = accept("-");  // "-inf"; "-1" is one token
  double value = 0;
  if (accept("inf")) {
    value = INFINITY;
  } else if (accept("nan")) {
    value = NAN;
  } else {
    const char* end = token_.text.data() + token_.text.size();
    auto parsed = std::from_chars(token_.text.data(), end, value);
    bool bad = parsed.ptr != end || parsed.ec != std::errc();
    if (token_.kind != Token::Kind::kNumber || bad) fail(str("expected ", what, ", a number"));
    advance();
  }
  // The sign of a nan is dropped, since printing would lose it.
  return negative && !std::isnan(value) ? -value : value;
}

void Lexer::fail(const std::string& text) const {
  const bool end = token_.kind == Token::Kind::kEnd;
  fail_at(token_,
          str(text, " but got ", end ? "the end" : "'" + shortened(token_.text) + "'", "."));
}

void Lexer::fail_at(const Token& token, const std::string& text) const {
  throw support::UserError(
      str("[parse] ", origin_, ":", token.line, ":", token.column, ": ", text));
}

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    } else if (c == '/' && text_.substr(at_, 2) == "//") {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      continue;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
    ++at_;
  }
}

void Lexer::advance() {
  skip_space();
  token_ = Token{};
  token_.line = line_;
  token_.column = static_cast<int>(at_ - line_start_) + 1;
  if (at_ >= text_.size()) return;
  const size_t begin = at_;
  const char c = text_[at_];
  const char following = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (c == '"') return read_string();
  if (name_start(c)) {
    while (at_ < text_.size() && name_part(text_[at_])) ++at_;
    token_.kind = Token::Kind::kName;
  } else if (digit(c) || (c == '-' && digit(following))) {
    read_number();
  } else {
    at_ += (c == '-' && following == '>') ? 2 : 1;
    while (at_ < text_.size() && is_continued(text_[at_])) ++at_;
    token_.kind = Token::Kind::kPunct;
  }
  token_.text = std::string(text_.substr(begin, at_ - begin));
}

void Lexer::read_number() {
  const bool negative = text_[at_] == '-';
  ++at_;
  for (; at_ < text_.size(); ++at_) {
    const char part = text_[at_], before = text_[at_ - 1];
    const bool sign = (part == '-' || part == '+') && (before == 'e' || before == 'E');
    if (!number_part(part) && !sign) break;
  }
  token_.kind = Token::Kind::kNumber;
  // This is a name that begins with digits, such as %0.weight.
  if (at_ < text_.size() && name_part(text_[at_]) && !negative) {
    while (at_ < text_.size() && name_part(text_[at_])) ++at_;
    token_.kind = Token::Kind::kName;
  }
}

void Lexer::read_string() {
  token_.kind = Token::Kind::kString;
  const size_t line_end = std::min(text_.find('\n', at_), text_.size());
  for (++at_; at_ < line_end && text_[at_] != '"'; ++at_) {
    if (text_[at_] != '\\' || at_ + 1 == line_end) {
      token_.text += text_[at_];
    } else if (text_[++at_] == 'n') {
      token_.text += '\n';
    } else if (text_[at_] == 'x') {
      const int high = at_ + 1 < line_end ? hex_value(text_[at_ + 1]) : -1;
      const int low = at_ + 2 < line_end ? hex_value(text_[at_ + 2]) : -1;
      // Characters beyond ASCII are written without an escape.
      if (high < 0 || high > 7 || low < 0) {
        fail_at(token_, "a string has a bad \\x escape. It takes two digits, from 00 to 7f.");
      }
      token_.text += static_cast<char>(high * 16 + low);
      at_ += 2;
    } else {
      token_.text += text_[at_];
    }
  }
  if (at_ >= line_end)
    fail_at(token_, "a string has no end in its line. Write \\n for a new line.");
  ++at_;
}

}  // namespace poptorch::ir
