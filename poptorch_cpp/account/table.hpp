// Columns of numbers and the texts that they name: the output format for a compiled model.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "support/symbol.hpp"

namespace poptorch::account {

// Returns the id of an op as the data has it. Ids of ops in called graphs are hashed from two ids,
// and JSON numbers have 53 bits.
inline int64_t number_of(uint64_t op_id) {
  return static_cast<int64_t>(op_id & ((uint64_t{1} << 53) - 1));
}

// Numbers texts, each once; number 0 is the empty one.
class Strings {
 public:
  Strings() { operator()(std::string_view()); }

  int64_t operator()(std::string_view text) {
    const auto [found, is_new] =
        numbers_.try_emplace(std::string(text), static_cast<int64_t>(texts_.size()));
    if (is_new) texts_.emplace_back(text);
    return found->second;
  }
  int64_t operator()(support::Symbol symbol) {
    const auto [found, is_new] = symbols_.try_emplace(&symbol.text(), 0);
    if (is_new) found->second = operator()(std::string_view(symbol.text()));
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::unordered_map<std::string, int64_t> numbers_;         // look-up only
  std::unordered_map<const std::string*, int64_t> symbols_;  // look-up only, by interned text
  std::vector<std::string> texts_;
};

// Holds columns of equal length, by name.
class Table {
 public:
  Table(std::initializer_list<const char*> names) : names_(names), columns_(names.size()) {}

  // Adds a row with one value a column; returns its number.
  int64_t add(std::initializer_list<int64_t> row) {
    size_t i = 0;
    for (int64_t value : row) columns_[i++].push_back(value);
    return rows() - 1;
  }
  int64_t rows() const { return static_cast<int64_t>(columns_[0].size()); }
  const std::vector<const char*>& names() const { return names_; }
  const std::vector<std::vector<int64_t>>& columns() const { return columns_; }
  // Returns the column of that name, which must exist.
  std::vector<int64_t>& column(std::string_view name) {
    size_t i = 0;
    while (name != names_[i]) ++i;
    return columns_[i];
  }
  const std::vector<int64_t>& column(std::string_view name) const {
    return const_cast<Table*>(this)->column(name);
  }

 private:
  std::vector<const char*> names_;
  std::vector<std::vector<int64_t>> columns_;
};

}  // namespace poptorch::account
