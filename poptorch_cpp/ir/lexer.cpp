// Implements lexer.hpp.
#include "ir/lexer.hpp"

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

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {
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

int64_t Lexer::integer(std::string_view what) {
  int64_t value = 0;
  const char* end = token_.text.data() + token_.text.size();
  auto parsed = std::from_chars(token_.text.data(), end, value);
  if (token_.kind != Token::Kind::kNumber || parsed.ptr != end || parsed.ec != std::errc()) {
    fail(str("expected ", what, ", an integer of 64 bits"));
  }
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
  return negative ? -value : value;
}

void Lexer::fail(const std::string& text) const {
  std::string got = token_.kind == Token::Kind::kEnd ? "the end" : "'" + token_.text + "'";
  throw support::UserError(str("[parse] ", origin_, ":", token_.line, ":", token_.column, ": ",
                               text, " but got ", got, "."));
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
  char c = text_[at_];
  char following = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (name_start(c)) {
    while (at_ < text_.size() && name_part(text_[at_])) ++at_;
    token_.kind = Token::Kind::kName;
  } else if (digit(c) || (c == '-' && digit(following))) {
    ++at_;
    while (at_ < text_.size()) {
      char part = text_[at_];
      bool sign_of_exponent =
          (part == '-' || part == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!number_part(part) && !sign_of_exponent) break;
      ++at_;
    }
    token_.kind = Token::Kind::kNumber;
    // A name that begins with digits, such as %0.weight.
    if (at_ < text_.size() && name_part(text_[at_]) && c != '-') {
      while (at_ < text_.size() && name_part(text_[at_])) ++at_;
      token_.kind = Token::Kind::kName;
    }
  } else if (c == '"') {
    token_.kind = Token::Kind::kString;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\' || at_ + 1 >= text_.size()) {
        token_.text += text_[at_];
      } else if (text_[++at_] == 'n') {
        token_.text += '\n';
      } else if (text_[at_] == 'x' && at_ + 2 < text_.size()) {
        int high = hex_value(text_[at_ + 1]), low = hex_value(text_[at_ + 2]);
        if (high < 0 || low < 0) fail("a bad \\x escape");
        token_.text += static_cast<char>(high * 16 + low);
        at_ += 2;
      } else {
        token_.text += text_[at_];
      }
    }
    if (at_ >= text_.size()) fail("a string without an end");
    ++at_;
    return;
  } else {
    at_ += (c == '-' && following == '>') ? 2 : 1;
    token_.kind = Token::Kind::kPunct;
  }
  token_.text = std::string(text_.substr(begin, at_ - begin));
}

}  // namespace poptorch::ir
