// How the operands of a reduction are cut into slices.
#include <algorithm>

#include "emulator/collectives/sent_collective.hpp"

namespace poptorch::emulator {
namespace {

// Of the operands at a time: long enough that a message's costs do not count, short enough that the
// chain's links soon work at once and that a slice stays in the cache from one to the next.
constexpr int64_t kSliceBytes = int64_t{1} << 18, kDirectSliceBytes = int64_t{1} << 19;
// Of those that are lent, each of which costs some turns between the instances: in
// Fabric::least_loan().
constexpr int64_t kLongSlice = 4;

int64_t ceil_of(int64_t length, int64_t parts) { return (length + parts - 1) / parts; }

}  // namespace

void SentCollective::cut_slices() {
  const int64_t widest = std::max(element_bytes(), fold_->partial_bytes());
  const int parts = has_rank_parts() ? group_.ranks() : 1;
  const int64_t part = spec_.elements / parts;
  int64_t most = std::min(is_direct_ ? kDirectSliceBytes : kSliceBytes, most_bytes()) / widest;
  if (is_long_) {  // as many for each owner, as long as each other
    const int owners = has_rank_parts() || !has_owners() ? 1 : group_.ranks();
    const int64_t bytes = part / owners * element_bytes();
    most = ceil_of(part, owners * ceil_of(bytes, kLongSlice * peers_.fabric().least_loan()));
  }
  for (int rank = 0; rank < parts; ++rank) {
    for (int64_t at = 0; at < part; at += most) {
      slices_.push_back(
          {rank * part + at, std::min(most, part - at), has_rank_parts() ? rank : -1});
    }
  }
  if (!slices_.empty()) {
    partial_ = Memory(slices_.front().elements * widest, "a part of a collective");
  }
}

// Of the replica at `place` among those here.
std::byte* SentCollective::result_of(const Slice& slice, size_t place) const {
  const int64_t part = spec_.elements / group_.ranks();
  const int64_t first = slice.rank < 0 ? slice.first : slice.first - slice.rank * part;
  return results_[place] + first * element_bytes();
}

}  // namespace poptorch::emulator
