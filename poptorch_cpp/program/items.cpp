#include "program/items.hpp"

#include <cctype>
#include <unordered_set>

#include "support/strings.hpp"

namespace poptorch::program {

std::vector<std::string> unique_names(const std::vector<ir::Symbol>& symbols) {
  std::vector<std::string> names;
  names.reserve(symbols.size());
  std::unordered_set<std::string> taken;
  for (ir::Symbol symbol : symbols) {
    std::string base;
    for (char c : symbol.text()) {
      base += std::isalnum(static_cast<unsigned char>(c)) || c == '.' ? c : '_';
    }
    if (base.empty() || base == "_") base = "t";
    std::string name = base;
    for (size_t n = names.size(); !taken.insert(name).second; ++n) {
      name = support::str(base, "_", n);
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace poptorch::program
