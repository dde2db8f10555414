// Two placements are made, and the smaller one is taken. In order of time, memory that was in use a
// moment ago is used again, which suits caches; but a short stay splits the gap that a long one
// needs later. In order of size, large stays are placed first and small ones fill what is left.
#include "emulator/bind/place_stays.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace poptorch::emulator {
namespace {

// Placing n stays by size takes time in proportion to n². The others are placed in order of time.
constexpr size_t kMostBySize = 2048;
// The order of time is kept where the order of size saves less than a tenth.
constexpr double kWorthwhile = 0.9;

// Allocates by best fit in the gaps of a memory that grows at its end.
class Gaps {
 public:
  int64_t take(int64_t bytes) {
    auto best = gaps_.end();
    for (auto it = gaps_.begin(); it != gaps_.end(); ++it) {
      if (it->second >= bytes && (best == gaps_.end() || it->second < best->second)) best = it;
    }
    if (best == gaps_.end()) return grow(bytes);
    const auto [offset, size] = *best;
    gaps_.erase(best);
    if (size > bytes) gaps_.emplace(offset + bytes, size - bytes);
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    auto next = gaps_.lower_bound(offset);
    if (next != gaps_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        gaps_.erase(previous);
      }
    }
    if (next != gaps_.end() && offset + bytes == next->first) {
      bytes += next->second;
      gaps_.erase(next);
    }
    gaps_.emplace(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  int64_t grow(int64_t bytes) {
    int64_t offset = end_;
    if (!gaps_.empty()) {
      auto last = std::prev(gaps_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        gaps_.erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  std::map<int64_t, int64_t> gaps_;  // offset → size
  int64_t end_ = 0;
};

using Numbers = std::vector<size_t>;

// Places the numbered stays from `first` bytes on, in order of time. Returns where the memory ends.
int64_t place_in_time(std::span<const Stay> stays, Numbers which, int64_t first,
                      std::vector<int64_t>& offsets) {
  std::stable_sort(which.begin(), which.end(),
                   [&](size_t a, size_t b) { return stays[a].begin < stays[b].begin; });
  Gaps gaps;
  std::set<std::tuple<int64_t, int64_t, int64_t>> live;  // end, offset, bytes
  for (size_t i : which) {
    while (!live.empty() && std::get<0>(*live.begin()) < stays[i].begin) {
      gaps.give(std::get<1>(*live.begin()), std::get<2>(*live.begin()));
      live.erase(live.begin());
    }
    const int64_t offset = gaps.take(stays[i].bytes);
    offsets[i] = first + offset;
    live.emplace(stays[i].end, offset, stays[i].bytes);
  }
  return first + gaps.end();
}

// Places the numbered stays, the largest first, each at the lowest offset that is free during all
// of it. Returns where the memory ends.
int64_t place_by_size(std::span<const Stay> stays, const Numbers& largest_first,
                      std::vector<int64_t>& offsets) {
  Numbers placed;  // in the order of their offsets
  int64_t all = 0;
  for (size_t i : largest_first) {
    int64_t offset = 0;
    for (size_t other : placed) {
      if (stays[other].end < stays[i].begin || stays[i].end < stays[other].begin) continue;
      if (offsets[other] >= offset + stays[i].bytes) break;
      offset = std::max(offset, offsets[other] + stays[other].bytes);
    }
    offsets[i] = offset;
    all = std::max(all, offset + stays[i].bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](int64_t at, size_t b) { return at < offsets[b]; }),
                  i);
  }
  return all;
}

}  // namespace

Placement place_stays(std::span<const Stay> stays) {
  Numbers which(stays.size());
  std::iota(which.begin(), which.end(), size_t{0});
  Placement in_time{std::vector<int64_t>(stays.size())};
  in_time.bytes = place_in_time(stays, which, 0, in_time.offsets);

  std::stable_sort(which.begin(), which.end(),
                   [&](size_t a, size_t b) { return stays[a].bytes > stays[b].bytes; });
  const auto split = which.begin() + static_cast<int64_t>(std::min(which.size(), kMostBySize));
  Placement by_size{std::vector<int64_t>(stays.size())};
  by_size.bytes = place_by_size(stays, Numbers(which.begin(), split), by_size.offsets);
  by_size.bytes = place_in_time(stays, Numbers(split, which.end()), by_size.bytes, by_size.offsets);
  const auto worthwhile = kWorthwhile * static_cast<double>(in_time.bytes);
  return static_cast<double>(by_size.bytes) < worthwhile ? by_size : in_time;
}

}  // namespace poptorch::emulator
