// Text helpers: concatenation of streamable values and joined lists.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace poptorch::support {

// str("a", 1, x) streams every argument into one string.
template <typename... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// join({1, 2}, ", ") == "1, 2".
template <typename Range>
std::string join(const Range& range, std::string_view separator) {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : range) {
    if (!first) out << separator;
    out << item;
    first = false;
  }
  return out.str();
}

// The shortest decimal text that reads back as exactly `value`, always recognisable as a float
// ("1.0", "1e-05", "inf", "nan").
std::string float_text(double value);
std::string float32_text(float value);  // shorter: exact for a float

// `text` in double quotes with quotes, backslashes and control characters escaped, and all but
// ASCII where it is not UTF-8.
std::string quoted(std::string_view text);

// The position of the first byte that is not part of a UTF-8 character; npos when there is none.
size_t find_non_utf8(std::string_view text);

// The name among `candidates` that is closest to `name` by edit distance; empty when none is near.
std::string closest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace poptorch::support
