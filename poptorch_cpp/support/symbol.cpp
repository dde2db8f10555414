// The table of interned strings.
#include "support/symbol.hpp"

#include <array>
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

const std::string* find_or_add(std::string_view text) {
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

// Most texts are names of a few attributes and ops, again and again. Each thread keeps the latest
// symbols in places that follow from a few letters, and compares whole texts: no lock, no hash.
const std::string* intern(std::string_view text) {
  static const std::string* const empty = find_or_add({});
  if (text.empty()) return empty;
  constexpr size_t kPlaces = 1024;
  thread_local std::array<const std::string*, kPlaces> latest{};
  const size_t size = text.size();
  const auto letter = [&](size_t at) { return size_t{static_cast<unsigned char>(text[at])}; };
  const size_t mixed =
      size + letter(0) * 7 + letter(size / 2) * 31 + letter(size - 1) * 127 + letter(size * 3 / 4);
  const std::string*& place = latest[mixed % kPlaces];
  if (!place || *place != text) place = find_or_add(text);
  return place;
}

}  // namespace

Symbol::Symbol(std::string_view text) : text_(intern(text)) {}

std::ostream& operator<<(std::ostream& out, Symbol s) { return out << s.text(); }

}  // namespace poptorch::support
