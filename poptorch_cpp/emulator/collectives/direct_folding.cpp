// Folds the operands of the slices that this instance owns, as they arrive.
#include <functional>

#include "emulator/collectives/direct_reduction.hpp"
#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {
namespace {

constexpr size_t kAhead = 2;  // operands on their way or being folded

}  // namespace

// Folds the next slice as far as operands have arrived. Returns whether any had.
bool DirectReduction::fold_next() {
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
        fold_.finish(part, result_of(slice, 0), places);
      } else {
        fold_.partial(part, partial_.data());
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

// Returns whether no instance waits any more for this one's operand of a slice that it folds
// itself. The result may go to the operand's memory.
bool DirectReduction::can_overwrite(size_t slice) const {
  if (operands_[0] != results_[0] || has_owners()) return true;
  for (int place = 0; place < group_.places(); ++place) {
    // Without owners only operands move, a slice after the other.
    if (place != group_.here && transfers_.released(place) <= slice) return false;
  }
  return true;
}

// Returns whether the other instance's operand can go where the result goes.
bool DirectReduction::folds_in_place() const {
  return group_.places() == 2 && operands_[0] != results_[0];
}

// Folds an operand of this instance's next slice. Returns whether it has arrived.
bool DirectReduction::take_operand(int place, int64_t bytes, const Fabric::Use& fold) {
  Fabric& fabric = peers_.fabric();
  const int other = group_.instance(place);
  if (!is_long_) {
    return !fabric.is_next(other, result_tag_) && fabric.receive(other, operand_tag_, bytes, fold);
  }
  const Fetched& next = ahead_[taken_ % ahead_.size()];
  if (taken_ == fetching_ || !fabric.is_over(other, next.request)) return false;
  fold(next.data);
  ++taken_;
  fetch_operands();
  return true;
}

void DirectReduction::begin_fetches() {
  fetching_ = taken_ = 0;
  if (own_.empty()) return;
  ahead_.resize(folds_in_place() ? own_.size() : kAhead);
  for (Fetched& fetched : ahead_) {
    if (folds_in_place() || fetched.memory.data()) continue;
    fetched.memory =
        Memory(slices_.front().elements * element_bytes(), "an operand of a collective");
  }
}

void DirectReduction::fetch_operands() {
  const auto others = static_cast<size_t>(group_.places() - 1);
  for (; fetching_ < own_.size() * others && fetching_ < taken_ + ahead_.size(); ++fetching_) {
    const Slice& slice = slices_[own_[fetching_ / others]];
    auto place = static_cast<int>(fetching_ % others);
    if (place >= group_.here) ++place;
    Fetched& into = ahead_[fetching_ % ahead_.size()];
    into.data = folds_in_place() ? result_of(slice, 0) : into.memory.data();
    into.request = peers_.fabric().request(group_.instance(place), operand_tag_, into.data,
                                           slice.elements * element_bytes());
    if (into.request == Fabric::kNoRoom) return;
  }
}

}  // namespace poptorch::emulator
