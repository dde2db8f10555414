// Assigns slices to owners, and brings operands and results to where they are needed.
// direct_folding.cpp folds them.
#include "emulator/collectives/direct_reduction.hpp"

#include <algorithm>
#include <utility>

namespace poptorch::emulator {
namespace {

// A slice is so long that a message's costs do not count, and stays in the cache.
constexpr int64_t kDirectSlice = int64_t{1} << 19;
// Slices of zero-copy transfers have this length, in units of Fabric::least_bulk(): each costs some
// messages between the instances.
constexpr int64_t kLongSlice = 4;
// Every instance folds all operands of up to kShortBytes: more bytes, but one message latency less.
// Between two instances the bytes are the same; there kShortOfTwo, in units of
// Fabric::least_bulk(), is the size from which folding takes longer than messages.
constexpr int64_t kShortBytes = int64_t{1} << 13, kShortOfTwo = 8;
constexpr int kEverybody = -1;

int64_t ceil_of(int64_t length, int64_t parts) { return (length + parts - 1) / parts; }

}  // namespace

DirectReduction::DirectReduction(const CollectiveSpec& spec, int number, InstanceGroup group,
                                 Peers& peers)
    : SentReduction(spec, number, std::move(group), peers),
      is_long_(peers.share().fabric && spec.elements / group_.ranks() * element_bytes() >=
                                           peers.share().fabric->least_bulk()),
      transfers_(group_, peers, is_long_) {
  if (peers.share().fabric) cut_slices(longest_slice());  // else Peers::begin_run() refuses runs
}

// Returns a number of elements.
int64_t DirectReduction::longest_slice() const {
  const Fabric& fabric = peers_.fabric();
  if (!is_long_) {
    return std::min(kDirectSlice, fabric.longest_message(group_.is_on_one_host)) / widest();
  }
  // Each owner has equally many slices, of equal length.
  const int64_t part = spec_.elements / parts();
  const int owners = has_rank_parts() || !has_owners() ? 1 : group_.ranks();
  const int64_t bytes = part / owners * element_bytes();
  return ceil_of(part, owners * ceil_of(bytes, kLongSlice * fabric.least_bulk()));
}

bool DirectReduction::has_owners() const {
  const int64_t bytes = spec_.operand_bytes();
  if (has_rank_parts()) return true;
  if (bytes <= kShortBytes) return false;
  if (group_.ranks() > 2) return true;
  return is_long_ && bytes > kShortOfTwo * peers_.fabric().least_bulk();
}

// Returns a place, or kEverybody.
int DirectReduction::owner_of(size_t slice) const {
  if (has_rank_parts()) return group_.place_of(slices_[slice].rank);
  if (!has_owners()) return kEverybody;
  return static_cast<int>(slice % static_cast<size_t>(group_.ranks()));
}

void DirectReduction::begin() {
  operand_tag_ = tag(0);
  result_tag_ = tag(1);
  transfers_.begin(operand_tag_, result_tag_);
  folded_ = 0;
  own_.clear();
  for (size_t slice = 0; slice < slices_.size(); ++slice) begin_slice(slice);
  const bool returns = !has_rank_parts() && has_owners();
  returned_to_.assign(group_.instances.size(), returns ? 0 : own_.size());
  returned_to_[group_.here] = own_.size();
  next_place_ = 0;
  if (is_long_) begin_fetches();
}

void DirectReduction::begin_slice(size_t index) {
  const Slice& slice = slices_[index];
  const int owner = owner_of(index);
  const int64_t bytes = slice.elements * element_bytes();
  const std::byte* operand = operands_[0] + slice.first * element_bytes();
  for (int place = 0; place < group_.places(); ++place) {
    if (place == group_.here || (owner != kEverybody && owner != place)) continue;
    transfers_.add_send(place, operand, bytes);
  }
  if (owner == group_.here || owner == kEverybody) {
    own_.push_back(index);
  } else if (!has_rank_parts()) {
    transfers_.add_receive(owner, result_of(slice, 0), bytes);
  }
}

bool DirectReduction::advance() {
  bool moved = false;
  for (bool again = true; again; moved |= again) {
    again = transfers_.advance();
    again = fold_next() || again;
    again = return_results() || again;
  }
  return moved;
}

// Sends results to the instances that lack them. Returns whether there was room.
bool DirectReduction::return_results() {
  bool moved = false;
  for (int place = 0; place < group_.places(); ++place) {
    for (size_t& at = returned_to_[place]; at < folded_; ++at, moved = true) {
      const Slice& slice = slices_[own_[at]];
      const int64_t bytes = slice.elements * element_bytes();
      if (!transfers_.send(place, result_tag_, result_of(slice, 0), bytes)) break;
    }
  }
  return moved;
}

int DirectReduction::first_without_results() const {
  for (int place = 0; place < group_.places(); ++place) {
    if (returned_to_[place] < own_.size()) return place;
  }
  return -1;
}

bool DirectReduction::is_finished() const {
  return folded_ == own_.size() && first_without_results() < 0 && transfers_.are_finished();
}

int DirectReduction::waits_for() const {
  if (folded_ < own_.size()) {
    if (!can_overwrite(own_[folded_])) {
      for (int place = 0; place < group_.places(); ++place) {
        if (transfers_.has_unsent(place)) return place;
      }
    }
    return next_place_ == group_.here ? next_place_ + 1 : next_place_;
  }
  int place = transfers_.first_waiting();
  if (place < 0) place = first_without_results();
  return place < 0 ? transfers_.first_moving() : place;
}

}  // namespace poptorch::emulator
