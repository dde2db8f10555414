// Hash tables for look-up only, by address or id: a pass enters each op or value of a program once.
// All entries are in one block of memory, where std::unordered_map allocates each by itself. There
// is no iteration, because the order of addresses differs from run to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace poptorch::support {

// Maps pointers, or integers, to values. References to values end with the next insertion. One key
// marks free places, and cannot be entered: the last address, the least number of a signed type or
// the largest of an unsigned one.
template <typename Key, typename T>
class FlatMap {
  static_assert(std::is_pointer_v<Key> || std::is_integral_v<Key>);

 public:
  struct Entry {
    Key first = none();
    [[no_unique_address]] T second = {};
  };

  FlatMap() = default;
  explicit FlatMap(size_t expected) { reserve(expected); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Return the entry of a key, or end(). An entry's key must not be changed.
  Entry* find(Key key) { return const_cast<Entry*>(std::as_const(*this).find(key)); }
  const Entry* find(Key key) const {
    if (size_ == 0 || key == none()) return nullptr;
    const Entry& entry = entries_[place_of(key)];
    return entry.first == key ? &entry : nullptr;
  }
  const Entry* end() const { return nullptr; }
  bool contains(Key key) const { return find(key) != nullptr; }

  T& at(Key key) { return const_cast<T&>(std::as_const(*this).at(key)); }
  const T& at(Key key) const {
    if (const Entry* entry = find(key)) return entry->second;
    throw std::out_of_range("FlatMap::at: the key is not in the table");
  }
  T& operator[](Key key) { return try_emplace(key).first->second; }

  // Returns the entry of a key, and whether it is new.
  template <typename... Arguments>
  std::pair<Entry*, bool> try_emplace(Key key, Arguments&&... arguments) {
    if (key == none()) throw std::invalid_argument("FlatMap: this key is reserved");
    if (2 * (size_ + 1) > entries_.size()) resize(2 * entries_.size());
    Entry& entry = entries_[place_of(key)];
    if (entry.first == key) return {&entry, false};
    entry.first = key;
    entry.second = T(std::forward<Arguments>(arguments)...);
    ++size_;
    return {&entry, true};
  }

  // Returns whether the key was in the table.
  bool erase(Key key) {
    if (!contains(key)) return false;
    size_t hole = place_of(key);
    // Later entries of the same run move up, so that every one remains reachable from its start.
    for (size_t i = next(hole); entries_[i].first != none(); i = next(i)) {
      const size_t start = start_of(entries_[i].first);
      if (((i - start) & mask()) < ((i - hole) & mask())) continue;
      entries_[hole] = std::exchange(entries_[i], {});
      hole = i;
    }
    entries_[hole] = {};
    --size_;
    return true;
  }

  // Makes room for this many entries.
  void reserve(size_t expected) {
    if (2 * expected > entries_.size()) resize(2 * expected);
  }

 private:
  static Key none() {
    if constexpr (std::is_pointer_v<Key>) {
      return reinterpret_cast<Key>(~uintptr_t{0});
    } else if constexpr (std::is_signed_v<Key>) {
      return std::numeric_limits<Key>::min();
    } else {
      return std::numeric_limits<Key>::max();
    }
  }

  size_t mask() const { return entries_.size() - 1; }
  size_t next(size_t place) const { return (place + 1) & mask(); }

  size_t start_of(Key key) const {
    uint64_t bits;
    if constexpr (std::is_pointer_v<Key>) {
      bits = reinterpret_cast<uintptr_t>(key);
    } else {
      bits = static_cast<uint64_t>(key);
    }
    return static_cast<size_t>((bits * 0x9e3779b97f4a7c15ull) >> shift_);
  }

  // Returns the place of the key, or the free one where it would be.
  size_t place_of(Key key) const {
    size_t place = start_of(key);
    while (entries_[place].first != key && entries_[place].first != none()) place = next(place);
    return place;
  }

  void resize(size_t least) {
    size_t places = kFewest;
    int shift = kShiftOfFewest;
    for (; places < least; places *= 2) --shift;
    std::vector<Entry> former = std::exchange(entries_, std::vector<Entry>(places));
    shift_ = shift;
    for (Entry& entry : former) {
      if (entry.first != none()) entries_[place_of(entry.first)] = std::move(entry);
    }
  }

  static constexpr size_t kFewest = 16;
  static constexpr int kShiftOfFewest = 60;  // leaves the number of a place among the fewest

  std::vector<Entry> entries_;  // a power of two, at most half of them used
  size_t size_ = 0;
  int shift_ = kShiftOfFewest;
};

// A set of pointers or integers.
template <typename Key>
class FlatSet {
 public:
  FlatSet() = default;

  size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  bool contains(Key key) const { return keys_.contains(key); }
  // Returns whether the key is new.
  bool insert(Key key) { return keys_.try_emplace(key).second; }
  template <typename Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) insert(*first);
  }
  bool erase(Key key) { return keys_.erase(key); }
  void reserve(size_t expected) { keys_.reserve(expected); }

 private:
  FlatMap<Key, std::monostate> keys_;
};

}  // namespace poptorch::support
