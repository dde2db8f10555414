// Sets of storages and counts by storage, in sorted vectors: fuse_chains makes many small ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace poptorch::emulator {

class StorageSet {
 public:
  void insert(int32_t id) {
    const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
    if (at == ids_.end() || *at != id) ids_.insert(at, id);
  }
  void insert(const StorageSet& other) {
    std::vector<int32_t> all;
    all.reserve(ids_.size() + other.ids_.size());
    std::set_union(ids_.begin(), ids_.end(), other.ids_.begin(), other.ids_.end(),
                   std::back_inserter(all));
    ids_ = std::move(all);
  }
  bool contains(int32_t id) const { return std::binary_search(ids_.begin(), ids_.end(), id); }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }

 private:
  std::vector<int32_t> ids_;  // ascending
};

class StorageCounts {
 public:
  void add(int32_t id, int count = 1) {
    const auto at = find(id);
    if (at != counts_.end() && at->first == id) {
      at->second += count;
    } else {
      counts_.insert(at, {id, count});
    }
  }
  void add(const StorageCounts& other) {
    for (const auto& [id, count] : other.counts_) add(id, count);
  }
  int of(int32_t id) const {
    const auto at = const_cast<StorageCounts*>(this)->find(id);
    return at != counts_.end() && at->first == id ? at->second : 0;
  }

 private:
  using Entry = std::pair<int32_t, int>;
  std::vector<Entry>::iterator find(int32_t id) {
    return std::lower_bound(
        counts_.begin(), counts_.end(), id,
        [](const Entry& entry, int32_t wanted) { return entry.first < wanted; });
  }

  std::vector<Entry> counts_;  // ascending
};

}  // namespace poptorch::emulator
