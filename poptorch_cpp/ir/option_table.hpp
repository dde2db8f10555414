// Tables of options: the members of a plain struct by name, with their ranges and meaning. Text
// forms, bindings and generated documents loop over them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/attr.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {

// `words` are the texts of an enumeration's values, in order, or all allowed values of a text. An
// option's default is always allowed.
struct OptionLimits {
  int64_t least = INT64_MIN, most = INT64_MAX;
  std::vector<std::string> words = {};
  bool even = false;

  bool allows(int64_t value) const {
    return value >= least && value <= most && (!even || value % 2 == 0);
  }
};

template <typename T, typename... Enumerations>
struct OptionRow {
  using Member = std::variant<bool T::*, int64_t T::*, uint64_t T::*, double T::*, std::string T::*,
                              DType T::*, Strings T::*, std::optional<bool> T::*,
                              std::set<std::string> T::*, Enumerations T::*...>;
  std::string_view name;
  Member member;
  std::string_view doc;
  OptionLimits limits = {};
  // The setter of poptorch.Options that sets exactly this option, with its argument and its
  // default: "autoRoundNumIPUs(auto_round_num_ipus=true)". Empty: a row in Python converts it, or a
  // pass finds it.
  std::string_view setter = {};
  bool changes = false;  // also after the module is compiled
  bool found = false;    // a pass finds it, or it follows from the wrapper: users cannot set it
};

namespace option_value {

// Returns a value as an attribute. Unsigned numbers of 64 bits keep their bits.
inline Attr attr_of(uint64_t value) { return static_cast<int64_t>(value); }
inline Attr attr_of(const std::optional<bool>& value) { return value.value_or(false); }
inline Attr attr_of(const std::set<std::string>& value) {
  return Strings(value.begin(), value.end());
}
template <typename V>
Attr attr_of(const V& value) {
  return value;
}

// Stores the attribute in `into` and returns whether its type fits. Whole numbers are accepted as
// floats.
bool take(const Attr& attr, bool& into);
bool take(const Attr& attr, int64_t& into);
bool take(const Attr& attr, uint64_t& into);
bool take(const Attr& attr, double& into);
bool take(const Attr& attr, std::string& into);
bool take(const Attr& attr, DType& into);  // also by its name
bool take(const Attr& attr, Strings& into);
bool take(const Attr& attr, std::optional<bool>& into);
bool take(const Attr& attr, std::set<std::string>& into);
bool is_one_of(const std::vector<std::string>& words,
               const std::string& text);  // no words: any text is
// Returns "1 to 4", "an even number between 2 and 8" or "a, b"; empty: no limit.
std::string allowed(const OptionLimits& limits);
// Takes `type` as type_of() returns it: the message describes what such a value looks like.
[[noreturn]] void refuse(std::string_view name, const Attr& attr, const OptionLimits& limits,
                         std::string_view type);
[[noreturn]] void refuse_name(const std::string& name, const std::vector<std::string>& known);

}  // namespace option_value

// Returns "bool", "int", "float", "str", "dtype", "strings" or "bool?", which may be absent.
template <typename Row>
std::string type_of(const Row& row) {
  static constexpr const char* kTypes[] = {"bool",  "int",     "int",   "float",  "str",
                                           "dtype", "strings", "bool?", "strings"};
  const size_t index = row.member.index();
  return index < std::size(kTypes) ? kTypes[index] : "str";  // words of an enumeration
}

// Returns the value as an attribute.
template <typename Row, typename T>
Attr value_of(const Row& row, const T& of) {
  return std::visit(
      [&](auto member) -> Attr {
        using V = std::decay_t<decltype(of.*member)>;
        if constexpr (std::is_enum_v<V> && !std::is_same_v<V, DType>) {
          return row.limits.words.at(static_cast<size_t>(of.*member));
        } else {
          return option_value::attr_of(of.*member);
        }
      },
      row.member);
}

// UserError for an attribute that is not of the row's type or out of its range.
template <typename Row, typename T>
void take_value(const Row& row, T& into, const Attr& attr) {
  const bool taken = std::visit(
      [&](auto member) {
        using V = std::decay_t<decltype(into.*member)>;
        if constexpr (std::is_enum_v<V> && !std::is_same_v<V, DType>) {
          const auto* text = std::get_if<std::string>(&attr);
          for (size_t i = 0; text && i < row.limits.words.size(); ++i) {
            if (row.limits.words[i] != *text) continue;
            into.*member = static_cast<V>(i);
            return true;
          }
          return false;
        } else {
          V value = into.*member;
          if (!option_value::take(attr, value)) return false;
          if constexpr (std::is_same_v<V, int64_t>) {
            if (!row.limits.allows(value) && value != T().*member) return false;
          }
          if constexpr (std::is_same_v<V, std::string>) {
            if (!option_value::is_one_of(row.limits.words, value)) return false;
          }
          into.*member = std::move(value);
          return true;
        }
      },
      row.member);
  if (!taken) option_value::refuse(row.name, attr, row.limits, type_of(row));
}

// Returns the attributes that differ from a default-constructed T.
template <typename Row, typename T>
Attrs attrs_of(const std::vector<Row>& rows, const T& of) {
  const T defaults = {};
  Attrs attrs;
  for (const Row& row : rows) {
    const bool absent =
        std::visit([&](auto member) { return of.*member == defaults.*member; }, row.member);
    if (!absent) attrs.set(std::string(row.name), value_of(row, of));
  }
  return attrs;
}

template <typename Row, typename T>
void take_attrs(const std::vector<Row>& rows, T& into, const Attrs& attrs) {
  T made = into;
  for (const auto& [name, attr] : attrs) {
    const Row* found = nullptr;
    for (const Row& row : rows) {
      if (row.name == name.text()) found = &row;
    }
    if (!found) {
      std::vector<std::string> known;
      for (const Row& row : rows) known.emplace_back(row.name);
      option_value::refuse_name(name.text(), known);
    }
    take_value(*found, made, attr);
  }
  into = std::move(made);
}

// A row for readers, and for front ends that build their options from it.
struct OptionText {
  std::string keyword, name;
  std::string type;           // type_of()
  std::optional<Attr> value;  // its default; none: absent
  std::string otherwise;      // the default as text
  OptionLimits limits;
  std::string allowed;  // a range, or words
  std::string setter;
  bool changes = false;
  bool found = false;
  std::string doc;
};

template <typename Row, typename T>
std::vector<OptionText> texts_of(const std::string& keyword, const std::vector<Row>& rows,
                                 const T& defaults) {
  std::vector<OptionText> texts;
  for (const Row& row : rows) {
    const std::string type = type_of(row);
    std::optional<Attr> value;
    if (type.back() != '?') value = value_of(row, defaults);
    texts.push_back({keyword, std::string(row.name), type, value, value ? attr_text(*value) : "",
                     row.limits, option_value::allowed(row.limits), std::string(row.setter),
                     row.changes, row.found, std::string(row.doc)});
  }
  return texts;
}

// UserError for a member that is out of its row's range.
template <typename Row, typename T>
void check_ranges(const std::vector<Row>& rows, const T& of) {
  T copy = of;
  for (const Row& row : rows) {
    if (std::holds_alternative<int64_t T::*>(row.member)) take_value(row, copy, value_of(row, of));
  }
}

}  // namespace poptorch::ir
