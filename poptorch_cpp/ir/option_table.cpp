// Converts attributes to the values of options.
#include "ir/option_table.hpp"

#include <algorithm>

namespace poptorch::ir::option_value {
namespace {

using support::str;
using support::UserError;

template <typename V>
bool take_as(const Attr& attr, V& into) {
  const V* value = std::get_if<V>(&attr);
  if (value) into = *value;
  return value != nullptr;
}

}  // namespace

bool take(const Attr& attr, bool& into) { return take_as(attr, into); }
bool take(const Attr& attr, int64_t& into) { return take_as(attr, into); }
bool take(const Attr& attr, std::string& into) { return take_as(attr, into); }

bool take(const Attr& attr, uint64_t& into) {
  int64_t value = 0;
  if (!take_as(attr, value)) return false;
  into = static_cast<uint64_t>(value);
  return true;
}

bool take(const Attr& attr, double& into) {
  int64_t whole = 0;
  if (!take_as(attr, whole)) return take_as(attr, into);
  into = static_cast<double>(whole);
  return true;
}

bool take(const Attr& attr, DType& into) {
  const auto* name = std::get_if<std::string>(&attr);
  if (!name) return take_as(attr, into);
  const auto dtype = dtype_from_name(*name);
  if (dtype) into = *dtype;
  return dtype.has_value();
}

bool take(const Attr& attr, Strings& into) {
  const auto* ints = std::get_if<Ints>(&attr);
  if (ints && ints->empty()) {  // `[]` parses as this
    into.clear();
    return true;
  }
  return take_as(attr, into);
}

bool take(const Attr& attr, std::optional<bool>& into) {
  bool value = false;
  if (!take_as(attr, value)) return false;
  into = value;
  return true;
}

bool take(const Attr& attr, std::set<std::string>& into) {
  Strings names;
  if (!take(attr, names)) return false;
  into = {names.begin(), names.end()};
  return true;
}

bool is_one_of(const std::vector<std::string>& words, const std::string& text) {
  return words.empty() || std::find(words.begin(), words.end(), text) != words.end();
}

std::string allowed(const OptionLimits& limits) {
  std::vector<std::string> words = limits.words;
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  if (!words.empty()) return support::join(words, ", ");
  if (limits.even) return str("an even number between ", limits.least, " and ", limits.most);
  return limits.most == INT64_MAX ? "" : str(limits.least, " to ", limits.most);
}

void refuse(std::string_view name, const Attr& attr, const OptionLimits& limits,
            std::string_view type) {
  static const std::pair<std::string_view, const char*> kLooks[] = {
      {"bool", "true or false"},
      {"bool?", "true or false"},
      {"int", "a whole number"},
      {"float", "a number"},
      {"str", "a text"},
      {"strings", "a list of texts"},
      {"dtype", "a type, such as f32"},
  };
  std::string text = str("[execution] ", name, " is ", attr_text(attr), ".");
  if (!limits.words.empty()) {
    text += str(" It must be one of ", support::join(limits.words, ", "), ".");
  } else if (std::holds_alternative<int64_t>(attr) && limits.even) {
    text += str(" It must be ", allowed(limits), ".");
  } else if (std::holds_alternative<int64_t>(attr) && limits.most != INT64_MAX) {
    text += str(" It must be at least ", limits.least, " and at most ", limits.most, ".");
  } else {
    for (const auto& [name_of_type, look] : kLooks) {
      if (name_of_type == type) text += str(" It must be ", look, ".");
    }
  }
  throw UserError(text);
}

void refuse_name(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = support::closest_name(name, known);
  throw UserError(str("[execution] there is no option ", support::quoted(name), " here.",
                      near.empty() ? str(" There are ", support::join(known, ", "), ".")
                                   : str(" Did you mean '", near, "'?")));
}

}  // namespace poptorch::ir::option_value
