// The table of interned strings.
#include "support/symbol.hpp"

#include <array>
#include <cstdint>
#include <cstring>
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

// Mixes the letters eight at a time. Names of states often differ in a single letter.
size_t mixed(std::string_view text) {
  uint64_t state = text.size(), word = 0;
  const auto mix = [&](const char* letters, size_t count) {
    std::memcpy(&word, letters, count);
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    state ^= state >> 32;
  };
  size_t at = 0;
  for (; at + sizeof(word) <= text.size(); at += sizeof(word)) mix(&text[at], sizeof(word));
  word = 0;
  if (at < text.size()) mix(&text[at], text.size() - at);
  return static_cast<size_t>(state);
}

// Most texts are names of attributes, ops and states, again and again. Each thread keeps the latest
// symbols in places that follow from the letters, and compares whole texts: no lock.
const std::string* intern(std::string_view text) {
  static const std::string* const empty = find_or_add({});
  if (text.empty()) return empty;
  constexpr size_t kPlaces = 4096;
  thread_local std::array<const std::string*, kPlaces> latest{};
  const std::string*& place = latest[mixed(text) % kPlaces];
  if (!place || *place != text) place = find_or_add(text);
  return place;
}

}  // namespace

Symbol::Symbol(std::string_view text) : text_(intern(text)) {}

std::ostream& operator<<(std::ostream& out, Symbol s) { return out << s.text(); }

}  // namespace poptorch::support
