// Implements the part of JSON that arguments of generic ops need: values, exact text, a parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace poptorch::frontend {

struct Json;
using JsonList = std::vector<Json>;
using JsonObject = std::vector<std::pair<std::string, Json>>;

struct Json
    : std::variant<std::monostate, bool, int64_t, double, std::string, JsonList, JsonObject> {
  using variant::variant;
  bool is_null() const { return std::holds_alternative<std::monostate>(*this); }
  // Throws InternalError for a value of another type.
  template <typename T>
  const T& get() const {
    const T* value = std::get_if<T>(this);
    if (!value) refuse_type();
    return *value;
  }
  const Json* find(std::string_view key) const;  // nullptr if not an object with `key`

 private:
  [[noreturn]] void refuse_type() const;
};

std::string json_text(const Json& value);
// Throws InternalError for malformed text.
Json parse_json(std::string_view text);

}  // namespace poptorch::frontend
