#include "emulator/collectives/chain_reduction.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {
namespace {

// A slice is so long that a message's costs do not count. It is so short that the chain's instances
// soon work at once and that it stays in the cache from one to the next.
constexpr int64_t kChainSlice = int64_t{1} << 18;

}  // namespace

ChainReduction::ChainReduction(const CollectiveSpec& spec, int number, InstanceGroup group,
                               Peers& peers)
    : SentReduction(spec, number, std::move(group), peers) {
  if (!peers.share().fabric) return;  // Peers::begin_run() refuses runs
  cut_slices(std::min(kChainSlice, peers.fabric().longest_message(group_.is_on_one_host)) /
             widest());
}

void ChainReduction::begin() {
  tag_ = tag(0);
  folded_ = returned_ = 0;
  has_partial_ = has_result_ = false;
}

// Both directions take turns, so that neither fills up.
bool ChainReduction::advance() {
  bool moved = false;
  for (bool again = true; again; moved |= again) {
    again = return_next();
    again = fold_next() || again;
  }
  return moved;
}

bool ChainReduction::is_finished() const {
  return folded_ == slices_.size() && returned_ == slices_.size();
}

int ChainReduction::waits_for() const {
  const int last = group_.places() - 1;
  if (is_last()) return last - 1;
  const bool has_folded = folded_ == slices_.size();
  if (!has_partial_ && !has_folded && group_.here > 0) return group_.here - 1;
  return has_rank_parts() && has_folded ? last : group_.here + 1;
}

// Copies an all_reduce's slice from the first replica's result to those of the others here.
void ChainReduction::copy_to_others_here(const Slice& slice) const {
  if (slice.rank >= 0) return;
  for (size_t place = 1; place < results_.size(); ++place) {
    std::memcpy(result_of(slice, place), result_of(slice, 0),
                static_cast<size_t>(slice.elements * element_bytes()));
  }
}

// Computes a slice's result on the last instance. Another instance's part waits until it is sent.
void ChainReduction::finish(const Slice& slice, const Fold::Part& part) {
  const bool is_whole = slice.rank < 0;
  const bool is_here = is_whole || group_.place_of(slice.rank) == group_.here;
  const auto place = static_cast<size_t>(is_whole ? 0 : slice.rank - group_.begin());
  fold_.finish(part, is_here ? result_of(slice, place) : partial_.data(), group_.ranks());
  has_result_ = !is_here;
  if (is_here) copy_to_others_here(slice);
}

// Folds the operands here after the partial result of the previous instance. Returns whether that
// has arrived.
bool ChainReduction::fold_here(const Slice& slice, int64_t bytes) {
  const auto fold = [&](const std::byte* before) {
    const Fold::Part part{operands_, slice.first, slice.elements, before};
    if (is_last()) {
      finish(slice, part);
    } else {
      fold_.partial(part, partial_.data());
    }
  };
  if (group_.here > 0) {
    return peers_.fabric().receive(group_.instance(group_.here - 1), tag_, bytes, fold);
  }
  fold(nullptr);
  return true;
}

// Moves the next slice one step towards the last instance. Returns whether it could.
bool ChainReduction::fold_next() {
  if (folded_ == slices_.size() || (is_last() && has_result_)) return false;
  const Slice& slice = slices_[folded_];
  const int64_t bytes = slice.elements * fold_.partial_bytes();
  const std::byte* partial = partial_.data();
  if (group_.here == 0 && operands_.size() == 1 && fold_.is_own_partial()) {
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
bool ChainReduction::return_next() {
  if (returned_ == slices_.size()) return false;
  const Slice& slice = slices_[returned_];
  const int64_t bytes = slice.elements * element_bytes();
  if (is_last()) {
    if (returned_ == folded_ || !send_result(slice, bytes)) return false;
  } else if (slice.rank < 0) {
    if (!return_whole(slice, bytes)) return false;
  } else if (group_.place_of(slice.rank) == group_.here) {
    std::byte* const into = result_of(slice, static_cast<size_t>(slice.rank - group_.begin()));
    if (!peers_.fabric().receive(group_.instances.back(), tag_, into, bytes)) return false;
  }
  ++returned_;
  return true;
}

// Sends a result from the last instance, unless it belongs here. Returns whether there was room.
bool ChainReduction::send_result(const Slice& slice, int64_t bytes) {
  const bool is_whole = slice.rank < 0;
  const int to = is_whole ? group_.here - 1 : group_.place_of(slice.rank);
  if (to == group_.here) return true;
  const std::byte* data = is_whole ? result_of(slice, 0) : partial_.data();
  if (!peers_.fabric().send(group_.instance(to), tag_, data, bytes)) return false;
  has_result_ = false;
  return true;
}

// Receives a result of an all_reduce and sends it on. Returns whether it could do both.
bool ChainReduction::return_whole(const Slice& slice, int64_t bytes) {
  Fabric& fabric = peers_.fabric();
  std::byte* const result = result_of(slice, 0);
  if (!has_result_) {
    if (!fabric.receive(group_.instance(group_.here + 1), tag_, result, bytes)) return false;
    copy_to_others_here(slice);
    has_result_ = true;
  }
  if (group_.here > 0 && !fabric.send(group_.instance(group_.here - 1), tag_, result, bytes)) {
    return false;
  }
  has_result_ = false;
  return true;
}

}  // namespace poptorch::emulator
