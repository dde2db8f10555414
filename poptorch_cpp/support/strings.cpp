#include "support/strings.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>

#include "support/symbol.hpp"

namespace poptorch::support {

namespace {

template <typename T>
std::string shortest_text(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

Piece::Piece(const Symbol& symbol) : Piece(symbol.text()) {}

void Piece::append_to(std::string& text) const {
  char number[32];
  const auto append = [&](std::to_chars_result written) { text.append(number, written.ptr); };
  switch (kind_) {
    case Kind::kText:
      text += text_;
      return;
    case Kind::kLetter:
      text += letter_;
      return;
    case Kind::kSigned:
      return append(std::to_chars(number, std::end(number), signed_));
    case Kind::kUnsigned:
      return append(std::to_chars(number, std::end(number), unsigned_));
    case Kind::kFloat:  // the precision of a stream
      return append(std::to_chars(number, std::end(number), float_, std::chars_format::general, 6));
    case Kind::kStreamed:
      std::ostringstream out;
      streamed_.print(out, streamed_.value);
      text += std::move(out).str();
      return;
  }
}

std::string concatenated(std::initializer_list<Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) piece.append_to(text);
  return text;
}

std::string float_text(double value) { return shortest_text(value); }
std::string float32_text(float value) { return shortest_text(value); }

std::string quoted(std::string_view text) {
  std::string out = "\"";
  const bool plain = find_non_utf8(text) == std::string_view::npos;
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || (c >= 0x80 && !plain)) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", c);
      out += hex;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + '"';
}

size_t find_non_utf8(std::string_view text) {
  // The rows are Unicode's table 3-7: by the first byte, the range of the second and the length.
  struct Row {
    unsigned char first, last, low, high;
    size_t length;
  };
  static constexpr Row kRows[] = {
      {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  auto within = [&](size_t at, unsigned char low, unsigned char high) {
    const auto c = at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
    return c >= low && c <= high;
  };
  for (size_t i = 0; i < text.size();) {
    const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                  [&](const Row& one) { return within(i, one.first, one.last); });
    if (row == std::end(kRows)) return i;
    for (size_t k = 1; k < row->length; ++k) {
      if (!within(i + k, k == 1 ? row->low : 0x80, k == 1 ? row->high : 0xbf)) return i;
    }
    i += row->length;
  }
  return std::string_view::npos;
}

// Longer names are not mistyped ones, and the time to compare grows with the length.
constexpr size_t kLongestMistyped = 100;

std::string closest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  if (name.size() > kLongestMistyped) return best;
  size_t best_distance = std::max<size_t>(2, name.size() / 2) + 1;
  for (const auto& candidate : candidates) {
    std::vector<size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0]++;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        size_t replace = diagonal + (name[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace poptorch::support
