// Reductions whose operands go along a chain of instances.
#include <cstring>

#include "emulator/collectives/sent_collective.hpp"

namespace poptorch::emulator {

// Copies an all_reduce's slice from the first replica's result to those of the others here.
void SentCollective::hand_out(const Slice& slice) const {
  if (slice.rank >= 0) return;
  for (size_t place = 1; place < results_.size(); ++place) {
    std::memcpy(result_of(slice, place), result_of(slice, 0),
                static_cast<size_t>(slice.elements * element_bytes()));
  }
}

// Computes a slice's result on the last instance. Another instance's part waits until it is sent.
void SentCollective::finish(const Slice& slice, const Fold::Part& part) {
  const bool is_whole = slice.rank < 0;
  const bool is_here = is_whole || group_.place_of(slice.rank) == group_.here;
  const auto place = static_cast<size_t>(is_whole ? 0 : slice.rank - group_.begin());
  fold_->finish(part, is_here ? result_of(slice, place) : partial_.data(), group_.ranks());
  has_result_ = !is_here;
  if (is_here) hand_out(slice);
}

// Folds the operands here after the partial result of the previous instance. Returns whether that
// has arrived.
bool SentCollective::fold_here(const Slice& slice, int64_t bytes) {
  const auto fold = [&](const std::byte* before) {
    const Fold::Part part{operands_, slice.first, slice.elements, before};
    if (is_last()) {
      finish(slice, part);
    } else {
      fold_->partial(part, partial_.data());
    }
  };
  if (group_.here > 0) {
    return peers_.fabric().receive(group_.instance(group_.here - 1), tag_, bytes, fold);
  }
  fold(nullptr);
  return true;
}

// Moves the next slice one step towards the last instance. Returns whether it could.
bool SentCollective::fold_next() {
  if (folded_ == slices_.size() || (is_last() && has_result_)) return false;
  const Slice& slice = slices_[folded_];
  const int64_t bytes = slice.elements * fold_->partial_bytes();
  const std::byte* partial = partial_.data();
  if (group_.here == 0 && operands_.size() == 1 && fold_->is_own_partial()) {
    partial = operands_[0] + slice.first * element_bytes();
  } else if (!has_partial_) {
    if (!fold_here(slice, bytes)) return false;
    has_partial_ = !is_last();
  }
  if (!is_last() && !peers_.fabric().send(group_.instance(group_.here + 1), tag_, partial, bytes)) {
    return false;
  }
  has_partial_ = false;
  ++folded_;
  return true;
}

// Moves the next slice's result one step away from the last instance. Returns whether it could.
bool SentCollective::return_next() {
  if (returned_ == slices_.size()) return false;
  const Slice& slice = slices_[returned_];
  const int64_t bytes = slice.elements * element_bytes();
  Fabric& fabric = peers_.fabric();
  const int owner = slice.rank < 0 ? -1 : group_.place_of(slice.rank);
  if (is_last()) {
    if (returned_ == folded_) return false;
    if (owner != group_.here) {
      const int to = group_.instance(owner < 0 ? group_.here - 1 : owner);
      const std::byte* data = owner < 0 ? result_of(slice, 0) : partial_.data();
      if (!fabric.send(to, tag_, data, bytes)) return false;
      has_result_ = false;
    }
  } else if (slice.rank < 0) {
    if (!has_result_) {
      if (!fabric.receive(group_.instance(group_.here + 1), tag_, result_of(slice, 0), bytes)) {
        return false;
      }
      hand_out(slice);
      has_result_ = true;
    }
    if (group_.here > 0 &&
        !fabric.send(group_.instance(group_.here - 1), tag_, result_of(slice, 0), bytes)) {
      return false;
    }
    has_result_ = false;
  } else if (owner == group_.here) {
    const auto place = static_cast<size_t>(slice.rank - group_.begin());
    if (!fabric.receive(group_.instances.back(), tag_, result_of(slice, place), bytes)) {
      return false;
    }
  }
  ++returned_;
  return true;
}

}  // namespace poptorch::emulator
