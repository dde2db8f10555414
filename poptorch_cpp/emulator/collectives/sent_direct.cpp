// Reductions whose operands go straight to the owner of their slice.
#include <functional>

#include "emulator/collectives/sent_collective.hpp"

namespace poptorch::emulator {
namespace {

// Every instance folds all operands of up to kShortBytes: more bytes, but one message latency less.
// Between two instances the bytes are the same; there kShortOfTwo, in units of
// Fabric::least_loan(), is the size from which folding takes longer than messages.
constexpr int64_t kShortBytes = int64_t{1} << 13, kShortOfTwo = 8;
constexpr int kEverybody = -1;
constexpr size_t kAhead = 2;  // operands on their way or being folded

}  // namespace

bool SentCollective::has_owners() const {
  const int64_t bytes = spec_.elements * element_bytes();
  if (has_rank_parts()) return true;
  if (bytes <= kShortBytes) return false;
  if (group_.ranks() > 2) return true;
  return is_long_ && bytes > kShortOfTwo * peers_.fabric().least_loan();
}

// Returns a place, or kEverybody.
int SentCollective::owner_of(size_t slice) const {
  if (has_rank_parts()) return group_.place_of(slices_[slice].rank);
  if (!has_owners()) return kEverybody;
  return static_cast<int>(slice % static_cast<size_t>(group_.ranks()));
}

void SentCollective::begin_direct() {
  const size_t places = group_.instances.size();
  own_.clear();
  for (auto* moves : {&sends_, &receives_}) {
    for (auto& of_place : *moves) of_place.clear();
  }
  sent_.assign(places, 0);
  received_.assign(places, 0);
  for (size_t index = 0; index < slices_.size(); ++index) {
    const Slice& slice = slices_[index];
    const int owner = owner_of(index);
    const int64_t bytes = slice.elements * element_bytes();
    const std::byte* operand = operands_[0] + slice.first * element_bytes();
    for (int place = 0; place < static_cast<int>(places); ++place) {
      if (place == group_.here || (owner != kEverybody && owner != place)) continue;
      add_moves(sends_[static_cast<size_t>(place)], group_.instance(place), operand, bytes);
    }
    if (owner == group_.here || owner == kEverybody) {
      own_.push_back(index);
    } else if (!has_rank_parts()) {
      add_moves(receives_[static_cast<size_t>(owner)], group_.instance(owner), result_of(slice, 0),
                bytes);
    }
  }
  const bool returns = !has_rank_parts() && has_owners();
  returned_to_.assign(places, returns ? 0 : own_.size());
  returned_to_[static_cast<size_t>(group_.here)] = own_.size();
  next_place_ = 0;
  receive_tag_ = tag(1);
  fetching_ = taken_ = 0;
  if (!is_long_ || own_.empty()) return;
  ahead_.resize(folds_in_place() ? own_.size() : kAhead);
  for (Fetched& fetched : ahead_) {
    if (folds_in_place() || fetched.memory.data()) continue;
    fetched.memory =
        Memory(slices_.front().elements * element_bytes(), "an operand of a collective");
  }
}

bool SentCollective::advance_direct() {
  bool moved = false;
  for (bool again = true; again; moved |= again) {
    again = move_all();
    again = fold_direct() || again;
    again = return_direct() || again;
  }
  return moved;
}

// Returns whether no instance waits any more for this one's operand of a slice that it folds
// itself. The result may go to the operand's memory.
bool SentCollective::can_overwrite(size_t slice) const {
  if (operands_[0] != results_[0] || has_owners()) return true;
  for (size_t place = 0; place < sends_.size(); ++place) {
    // Only operands use zero-copy transfers here, and they complete in their order.
    const size_t gone = sent_[place] - loans_[place].size();
    if (static_cast<int>(place) != group_.here && gone <= slice) return false;
  }
  return true;
}

// Folds this instance's next slice as far as messages have arrived. Returns whether any had.
bool SentCollective::fold_direct() {
  if (folded_ == own_.size()) return false;
  if (is_long_) fetch_operands();
  if (!can_overwrite(own_[folded_])) return false;
  const Slice& slice = slices_[own_[folded_]];
  const std::byte* own = operands_[0] + slice.first * element_bytes();
  const int first = next_place_, places = group_.ranks();
  while (next_place_ < places) {
    int place = next_place_;
    pieces_.clear();
    const auto take_own = [&] {
      if (place != group_.here) return;
      pieces_.push_back(own);
      ++place;
    };
    const auto fold = [&](const std::byte* data) {
      pieces_.push_back(data);
      ++place;
      take_own();
      const Fold::Part part{pieces_, 0, slice.elements,
                            next_place_ == 0 ? nullptr : partial_.data()};
      if (place == places) {
        fold_->finish(part, result_of(slice, 0), places);
      } else {
        fold_->partial(part, partial_.data());
      }
    };
    take_own();
    const int64_t bytes = slice.elements * element_bytes();
    // `fold` goes by reference: a copy would allocate each time that nothing has arrived.
    if (!take_operand(place, bytes, std::ref(fold))) break;
    next_place_ = place;
  }
  if (next_place_ < places) return next_place_ > first;
  next_place_ = 0;
  ++folded_;
  return true;
}

// Returns whether the other instance's operand can go where the result goes.
bool SentCollective::folds_in_place() const {
  return group_.places() == 2 && operands_[0] != results_[0];
}

// Folds an operand of this instance's next slice. Returns whether it has arrived.
bool SentCollective::take_operand(int place, int64_t bytes, const Fabric::Use& fold) {
  Fabric& fabric = peers_.fabric();
  const int other = group_.instance(place);
  if (!is_long_) {
    return !fabric.is_next(other, receive_tag_) && fabric.receive(other, tag_, bytes, fold);
  }
  const Fetched& next = ahead_[taken_ % ahead_.size()];
  if (taken_ == fetching_ || !fabric.is_over(other, next.fetch)) return false;
  fold(next.data);
  ++taken_;
  fetch_operands();
  return true;
}

void SentCollective::fetch_operands() {
  const auto others = static_cast<size_t>(group_.places() - 1);
  for (; fetching_ < own_.size() * others && fetching_ < taken_ + ahead_.size(); ++fetching_) {
    const Slice& slice = slices_[own_[fetching_ / others]];
    auto place = static_cast<int>(fetching_ % others);
    if (place >= group_.here) ++place;
    Fetched& into = ahead_[fetching_ % ahead_.size()];
    into.data = folds_in_place() ? result_of(slice, 0) : into.memory.data();
    into.fetch = peers_.fabric().fetch(group_.instance(place), tag_, into.data,
                                       slice.elements * element_bytes());
    if (into.fetch == Fabric::kNoRoom) return;
  }
}

// Sends results to the instances that lack them. Returns whether there was room.
bool SentCollective::return_direct() {
  bool moved = false;
  for (size_t place = 0; place < returned_to_.size(); ++place) {
    for (size_t& at = returned_to_[place]; at < folded_; ++at, moved = true) {
      const Slice& slice = slices_[own_[at]];
      if (!lend(static_cast<int>(place), receive_tag_, result_of(slice, 0),
                slice.elements * element_bytes())) {
        break;
      }
    }
  }
  return moved;
}

}  // namespace poptorch::emulator
