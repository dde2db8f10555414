#include "emulator/collectives/shared_collective.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/transport/fabric.hpp"
#include "emulator/transport/shared_pages.hpp"

namespace poptorch::emulator {
namespace {

// The bytes folded before the others are notified stay in the cache until they have copied them.
constexpr int64_t kBlockBytes = int64_t{1} << 17;
constexpr int64_t kElementsOfLine = 64;  // shares begin at cache lines

}  // namespace

SharedCollective::SharedCollective(const CollectiveSpec& spec, int number, InstanceGroup group,
                                   Peers& peers)
    : RemoteCollective(spec, number, std::move(group), peers),
      operand_bytes_(spec.elements * element_bytes()),
      block_(kBlockBytes / element_bytes()),
      others_(group_.instances.size()),
      pieces_(static_cast<size_t>(group_.ranks())),
      where_(pieces_.size()) {
  if (spec.is_reduction()) fold_.emplace(spec.dtype, spec.reduction);
}

void SharedCollective::begin() {
  const SharedPages& pages = peers_.shared_pages();
  for (size_t i = 0; i < operands_.size(); ++i) {
    const size_t rank = static_cast<size_t>(group_.begin()) + i;
    pieces_[rank] = operands_[i];
    where_[rank] = {pages.offset_of(operands_[i]),
                    is_shared_out() ? pages.offset_of(results_[i]) : 0};
  }
  std::ranges::fill(others_, Other());
  folded_ = 0;
  has_moved_ = false;
}

// Calls `does(place, other)` for each other instance. Returns whether any call returned true.
template <typename Does>
bool SharedCollective::for_others(Does does) {
  bool moved = false;
  for (int place = 0; place < group_.places(); ++place) {
    if (place != group_.here) moved = does(place, others_[place]) || moved;
  }
  return moved;
}

bool SharedCollective::advance() {
  bool moved = false;
  for (bool again = true; again; moved |= again) {
    again = for_others([&](int place, Other& other) {
      const bool told = tell_where(place, other);
      return hear_where(place, other) || told;
    });
    if (!are_all_here()) continue;
    again = work() || again;
    again = for_others([&](int place, Other& other) {
              const bool announced = announce(place, other);
              return copy_block(place, other) || announced;
            }) ||
            again;
    again = for_others([&](int place, Other& other) { return release(place, other); }) || again;
  }
  return moved;
}

bool SharedCollective::tell_where(int place, Other& other) {
  if (other.was_told) return false;
  const auto* own = reinterpret_cast<const std::byte*>(&where_[group_.begin()]);
  const auto bytes = static_cast<int64_t>(operands_.size() * sizeof(Where));
  other.was_told = peers_.fabric().send(group_.instance(place), tag(kWhere), own, bytes);
  return other.was_told;
}

bool SharedCollective::hear_where(int place, Other& other) {
  if (other.is_here) return false;
  const int64_t bytes = group_.count(place) * static_cast<int64_t>(sizeof(Where));
  auto* theirs = reinterpret_cast<std::byte*>(&where_[first_rank(place)]);
  other.has_told =
      other.has_told || peers_.fabric().receive(group_.instance(place), tag(kWhere), theirs, bytes);
  other.is_here = other.has_told && find_pages(place, other);
  return other.is_here;
}

// Finds another's shared memory. Returns false if it is gone: the instance may have ended.
bool SharedCollective::find_pages(int place, Other& other) {
  const auto find = [&](int64_t offset) {
    return peers_.shared_pages().at(group_.instance(place), offset, operand_bytes_);
  };
  const int first = first_rank(place);
  for (int rank = first; rank < first + group_.count(place); ++rank) {
    const auto index = static_cast<size_t>(rank);
    pieces_[index] = find(where_[index].operand);
    if (!pieces_[index]) return false;
  }
  if (is_shared_out()) other.result = find(where_[first].result);
  return true;
}

bool SharedCollective::are_all_here() const {
  for (int place = 0; place < group_.places(); ++place) {
    if (place != group_.here && !others_[place].is_here) return false;
  }
  return true;
}

// Returns the elements that a place folds. In a reduce_scatter its replicas get these elements.
SharedCollective::Part SharedCollective::part_of(int place) const {
  if (!fold_) return {};
  if (has_rank_parts()) {
    const int64_t part = spec_.elements / group_.ranks();
    return {first_rank(place) * part, group_.count(place) * part};
  }
  const int64_t even = (spec_.elements + group_.places() - 1) / group_.places();
  const int64_t most = (even + kElementsOfLine - 1) / kElementsOfLine * kElementsOfLine;
  const int64_t first = std::min(place * most, spec_.elements);
  return {first, std::min(most, spec_.elements - first)};
}

int64_t SharedCollective::blocks_of(int place) const {
  return (part_of(place).elements + block_ - 1) / block_;
}

// Folds the next block here, or moves everything. Returns whether there was anything to do.
bool SharedCollective::work() {
  if (!fold_ || has_rank_parts()) {
    if (std::exchange(has_moved_, true)) return false;
    move();
    return true;
  }
  if (folded_ == blocks_of(group_.here)) return false;
  fold_block();
  ++folded_;
  return true;
}

void SharedCollective::fold_block() {
  const Part part = part_of(group_.here);
  const int64_t first = part.first + folded_ * block_;
  const int64_t elements = std::min(block_, part.first + part.elements - first);
  const int64_t at = first * element_bytes();
  fold_->finish({.operands = pieces_, .first = first, .elements = elements}, results_[0] + at,
                group_.ranks());
  for (size_t i = 1; i < results_.size(); ++i) {
    std::memcpy(results_[i] + at, results_[0] + at,
                static_cast<size_t>(elements * element_bytes()));
  }
}

void SharedCollective::move() {
  const auto ranks = static_cast<int64_t>(pieces_.size());
  const int64_t part = operand_bytes_ / ranks;
  for (size_t i = 0; i < results_.size(); ++i) {
    const int64_t rank = group_.begin() + static_cast<int64_t>(i);
    if (fold_) {
      const int64_t elements = spec_.elements / ranks;
      fold_->finish({.operands = pieces_, .first = rank * elements, .elements = elements},
                    results_[i], ranks);
      continue;
    }
    const bool gathers = spec_.kind == CollectiveKind::kAllGather;
    const int64_t bytes = gathers ? operand_bytes_ : part;
    for (int64_t from = 0; from < ranks; ++from) {
      const std::byte* row = pieces_[from] + (gathers ? 0 : rank * part);
      std::memcpy(results_[i] + from * bytes, row, static_cast<size_t>(bytes));
    }
  }
}

bool SharedCollective::announce(int place, Other& other) {
  bool moved = false;
  for (; other.announced < folded_; ++other.announced, moved = true) {
    if (!peers_.fabric().send(group_.instance(place), tag(kReady), nullptr, 0)) break;
  }
  return moved;
}

// Copies the next block that another instance has folded, while it is in that one's cache.
bool SharedCollective::copy_block(int place, Other& other) {
  if (!is_shared_out() || other.copied == blocks_of(place)) return false;
  const int instance = group_.instance(place);
  while (peers_.fabric().receive(instance, tag(kReady), nullptr, 0)) ++other.ready;
  if (other.copied >= other.ready) return false;
  const Part part = part_of(place);
  const int64_t first = part.first + other.copied++ * block_;
  const int64_t elements = std::min(block_, part.first + part.elements - first);
  const int64_t at = first * element_bytes();
  for (std::byte* result : results_) {
    std::memcpy(result + at, other.result + at, static_cast<size_t>(elements * element_bytes()));
  }
  return true;
}

// Returns whether this instance needs nothing more from the others.
bool SharedCollective::has_all() const {
  if (!is_shared_out()) return has_moved_;
  if (folded_ < blocks_of(group_.here)) return false;
  for (int place = 0; place < group_.places(); ++place) {
    const Other& other = others_[place];
    if (place != group_.here && other.copied < blocks_of(place)) return false;
  }
  return true;
}

bool SharedCollective::release(int place, Other& other) {
  bool moved = false;
  const int instance = group_.instance(place);
  if (!other.was_released && has_all() && other.announced == folded_) {
    other.was_released = peers_.fabric().send(instance, tag(kTaken), nullptr, 0);
    moved = other.was_released;
  }
  if (!other.has_released && other.was_told) {
    other.has_released = peers_.fabric().receive(instance, tag(kTaken), nullptr, 0);
    moved = moved || other.has_released;
  }
  return moved;
}

bool SharedCollective::is_finished() const {
  for (int place = 0; place < group_.places(); ++place) {
    const Other& other = others_[place];
    if (place != group_.here && !(other.was_released && other.has_released)) return false;
  }
  return true;
}

int SharedCollective::waits_for() const {
  const auto first = [&](auto lacks) {
    for (int place = 0; place < group_.places(); ++place) {
      if (place != group_.here && lacks(place, others_[place])) return place;
    }
    return -1;
  };
  int place = first([](int, const Other& other) { return !other.is_here; });
  if (place < 0)
    place = first([&](int at, const Other& other) {
      return is_shared_out() && other.copied < blocks_of(at);
    });
  if (place < 0) place = first([](int, const Other& other) { return !other.has_released; });
  if (place < 0) place = first([](int, const Other& other) { return !other.was_released; });
  return place;
}

}  // namespace poptorch::emulator
