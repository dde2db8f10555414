// Text helpers: concatenation of streamable values and joined lists.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace poptorch::support {

class Symbol;

// A value inside a text, written as std::ostream writes it. It refers to the value. str() takes its
// arguments as pieces, so that a call instantiates one constructor per type, and no stream.
class Piece {
 public:
  Piece(std::string_view text) : kind_(Kind::kText), text_{text} {}  // NOLINT: implicit by design
  Piece(const std::string& text) : Piece(std::string_view(text)) {}  // NOLINT
  Piece(const char* text) : Piece(std::string_view(text)) {}         // NOLINT
  Piece(const Symbol& symbol);                                       // NOLINT
  Piece(char letter) : kind_(Kind::kLetter), letter_(letter) {}      // NOLINT
  Piece(signed char letter) : Piece(static_cast<char>(letter)) {}    // NOLINT
  Piece(unsigned char letter) : Piece(static_cast<char>(letter)) {}  // NOLINT
  Piece(double number) : kind_(Kind::kFloat), float_(number) {}      // NOLINT
  template <std::integral T>
  Piece(T number) {  // NOLINT
    if constexpr (std::is_signed_v<T>) {
      kind_ = Kind::kSigned;
      signed_ = number;
    } else {
      kind_ = Kind::kUnsigned;
      unsigned_ = number;
    }
  }
  template <typename T>
    requires(!std::is_arithmetic_v<T> && !std::is_convertible_v<const T&, std::string_view>)
  Piece(const T& value) : kind_(Kind::kStreamed), streamed_{&value, &print<T>} {}  // NOLINT

  void append_to(std::string& text) const;

 private:
  enum class Kind : uint8_t { kText, kLetter, kSigned, kUnsigned, kFloat, kStreamed };
  struct Streamed {
    const void* value;
    void (*print)(std::ostream&, const void*);
  };
  template <typename T>
  static void print(std::ostream& out, const void* value) {
    out << *static_cast<const T*>(value);
  }

  Kind kind_;
  union {
    std::string_view text_;
    char letter_;
    int64_t signed_;
    uint64_t unsigned_;
    double float_;
    Streamed streamed_;
  };
};

std::string concatenated(std::initializer_list<Piece> pieces);

// str("a", 1, x) writes every argument into one string.
template <typename... Args>
std::string str(const Args&... args) {
  return concatenated({Piece(args)...});
}

// join({1, 2}, ", ") == "1, 2".
template <typename Range>
std::string join(const Range& range, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& item : range) {
    if (!first) text += separator;
    Piece(item).append_to(text);
    first = false;
  }
  return text;
}

// Returns the shortest decimal text that reads back as exactly `value`, always recognisable as a
// float ("1.0", "1e-05", "inf", "nan").
std::string float_text(double value);
std::string float32_text(float value);  // shorter: exact for a float

// Returns `text` in double quotes, with quotes, backslashes and control characters escaped. If
// `text` is not UTF-8, bytes outside ASCII are escaped too.
std::string quoted(std::string_view text);

// Returns the position of the first byte that is not part of a UTF-8 character, or npos.
size_t find_non_utf8(std::string_view text);

// Returns the name among `candidates` that is closest to `name` by edit distance, or "" if none is
// near.
std::string closest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace poptorch::support
