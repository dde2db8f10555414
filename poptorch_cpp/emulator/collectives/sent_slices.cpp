// Cuts the operands of a reduction into slices.
#include <algorithm>

#include "emulator/collectives/sent_collective.hpp"

namespace poptorch::emulator {
namespace {

// A slice is so long that a message's costs do not count. It is so short that the chain's instances
// soon work at once and that it stays in the cache from one to the next.
constexpr int64_t kSliceBytes = int64_t{1} << 18, kDirectSliceBytes = int64_t{1} << 19;
// Slices of zero-copy transfers have this length, in units of Fabric::least_loan(): each costs some
// messages between the instances.
constexpr int64_t kLongSlice = 4;

int64_t ceil_of(int64_t length, int64_t parts) { return (length + parts - 1) / parts; }

}  // namespace

void SentCollective::cut_slices() {
  const int64_t widest = std::max(element_bytes(), fold_->partial_bytes());
  const int parts = has_rank_parts() ? group_.ranks() : 1;
  const int64_t part = spec_.elements / parts;
  int64_t most = std::min(is_direct_ ? kDirectSliceBytes : kSliceBytes, most_bytes()) / widest;
  if (is_long_) {  // each owner has equally many, of equal length
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

// Returns the slice's result of the replica at `place` among those here.
std::byte* SentCollective::result_of(const Slice& slice, size_t place) const {
  const int64_t part = spec_.elements / group_.ranks();
  const int64_t first = slice.rank < 0 ? slice.first : slice.first - slice.rank * part;
  return results_[place] + first * element_bytes();
}

}  // namespace poptorch::emulator
