// Tokens of the text forms (IR and program): names, numbers, strings and punctuation, with
// positions for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace poptorch::ir {

struct Token {
  enum class Kind { kEnd, kName, kNumber, kString, kPunct };
  Kind kind = Kind::kEnd;
  // Holds names without sigil, numbers as written, strings unescaped, and punctuation as one
  // character ("->" is one token).
  std::string text;
  int line = 1;
  int column = 1;
};

class Lexer {
 public:
  // UserError for text that is not UTF-8.
  Lexer(std::string_view text, std::string_view origin);

  const Token& peek() const { return token_; }
  Token next();
  bool at(std::string_view punct_or_name) const;
  bool accept(std::string_view punct_or_name);
  void expect(std::string_view punct_or_name);
  std::string name(std::string_view what);    // a name token's text
  std::string string(std::string_view what);  // a string token's text
  int64_t integer(std::string_view what, int64_t least = INT64_MIN, int64_t most = INT64_MAX);
  uint64_t natural(std::string_view what);  // an unsigned integer of 64 bits
  double number(std::string_view what);     // an integer, a float, inf, -inf or nan
  // UserError `[parse] origin:line:column: text but got ...`, at the current token.
  [[noreturn]] void fail(const std::string& text) const;
  // UserError `[parse] origin:line:column: text`, at a token that was read.
  [[noreturn]] void fail_at(const Token& token, const std::string& text) const;

 private:
  void advance();
  void skip_space();
  void read_number();
  void read_string();
  template <typename T>
  T whole(const std::string& expected);

  std::string_view text_;
  std::string_view origin_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  Token token_;
};

}  // namespace poptorch::ir
