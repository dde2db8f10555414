// Writes `{key=value, ...}` and `@[key=value ...]` of text forms, which fields.hpp reads, and names
// that no two values of a text share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ir/attr.hpp"

namespace poptorch::program {

// Collects `key=value` items and omits those with the usual value.
class Items {
 public:
  template <typename T>
  void add(std::string_view key, const T& value, const T& usual) {
    if (value == usual) return;
    items_.push_back(std::string(key) + "=");
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      items_.back() += std::to_string(static_cast<int64_t>(value));  // fast path: there are many
    } else {
      items_.back() += ir::attr_text(attr(value));
    }
  }
  std::string text(std::string_view open, std::string_view separator,
                   std::string_view close) const {
    std::string text;
    for (const std::string& item : items_) {
      text += text.empty() ? open : separator;
      text += item;
    }
    if (!text.empty()) text += close;
    return text;
  }
  std::string braced() const { return text(" {", ", ", "}"); }

 private:
  static ir::Attr attr(bool value) { return value; }
  static ir::Attr attr(int value) { return int64_t{value}; }
  static ir::Attr attr(int64_t value) { return value; }
  static ir::Attr attr(uint64_t value) { return static_cast<int64_t>(value); }
  static ir::Attr attr(std::string_view value) { return std::string(value); }
  static ir::Attr attr(const std::string& value) { return value; }
  static ir::Attr attr(const ir::Ints& value) { return value; }
  static ir::Attr attr(const ir::Strings& value) { return value; }

  std::vector<std::string> items_;
};

// Returns a name for each symbol, of letters, digits, dots and underscores. Of equal ones, the
// later get their place as an ending.
std::vector<std::string> unique_names(const std::vector<ir::Symbol>& symbols);

}  // namespace poptorch::program
