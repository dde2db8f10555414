// Reads `{key=value, ...}` and `@[key=value ...]` of the program's text into typed fields.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "ir/parse.hpp"
#include "support/strings.hpp"

namespace poptorch::program {

// Reading collects all keys and values at once. Each field then takes its own key; an error reports
// the keys that are left. Errors are located at the opening bracket.
class Fields {
 public:
  explicit Fields(ir::Lexer& lexer) : lexer_(lexer) {}

  void read_braces() {
    place_ = lexer_.peek();
    attrs_ = ir::parse_attrs(lexer_, nullptr);
  }

  void read_bracket() {
    place_ = lexer_.peek();
    attrs_ = {};
    if (!lexer_.accept("@")) return;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      const std::string key = lexer_.name("a key");
      if (attrs_.find(key)) fail("'", key, "' is given twice.");
      lexer_.expect("=");
      attrs_.set(key, ir::parse_attr(lexer_));
    }
  }

  bool has(std::string_view key) const { return attrs_.find(key) != nullptr; }
  const ir::Token& place() const { return place_; }

  // A field that the text does not mention keeps its value.
  template <typename T>
  void take(std::string_view key, T& field) {
    constexpr bool kAsItIs = std::is_same_v<T, bool> || std::is_same_v<T, std::string> ||
                             std::is_same_v<T, ir::Ints> || std::is_same_v<T, ir::Strings>;
    using Stored = std::conditional_t<kAsItIs, T, int64_t>;
    const ir::Attr* attr = attrs_.find(key);
    if (!attr) return;
    const auto* value = std::get_if<Stored>(attr);
    if (!value) fail("'", key, "' is ", ir::attr_text(*attr), ": of the wrong type.");
    field = static_cast<T>(*value);
    if (static_cast<Stored>(field) != *value) {
      fail("'", key, "' is ", ir::attr_text(*attr), ": out of range.");
    }
    attrs_.erase(key);
  }

  // Reads a word and converts its index in `words` to an enumerator.
  template <typename Enum, size_t N>
  void take_word(std::string_view key, const std::array<std::string_view, N>& words, Enum& field) {
    if (!has(key)) return;
    std::string word;
    take(key, word);
    const auto it = std::find(words.begin(), words.end(), word);
    if (it == words.end()) fail(support::quoted(word), " is not a value of '", key, "'.");
    field = static_cast<Enum>(it - words.begin());
  }

  void end() const {
    if (!attrs_.empty()) fail("'", attrs_.begin()->first, "' is not known here.");
  }

  template <typename... Args>
  [[noreturn]] void fail(const Args&... args) const {
    lexer_.fail_at(place_, support::str(args...));
  }

 private:
  ir::Lexer& lexer_;
  ir::Attrs attrs_;
  ir::Token place_;
};

}  // namespace poptorch::program
