// The table of interned strings.
#include "support/symbol.hpp"

#include <mutex>
#include <ostream>
#include <shared_mutex>
#include <unordered_set>

namespace poptorch::support {
namespace {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

const std::string* intern(std::string_view text) {
  // Leaked on purpose: symbols in static objects must outlive every destructor.
  static auto* table = new std::unordered_set<std::string, TextHash, std::equal_to<>>();
  static auto* mutex = new std::shared_mutex();
  {
    std::shared_lock lock(*mutex);
    if (auto it = table->find(text); it != table->end()) return &*it;
  }
  std::unique_lock lock(*mutex);
  return &*table->emplace(text).first;
}

}  // namespace

Symbol::Symbol(std::string_view text) : text_(intern(text)) {}

std::ostream& operator<<(std::ostream& out, Symbol s) { return out << s.text(); }

}  // namespace poptorch::support
