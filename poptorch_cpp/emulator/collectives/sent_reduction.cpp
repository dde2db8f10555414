#include "emulator/collectives/sent_reduction.hpp"

#include <algorithm>
#include <utility>

namespace poptorch::emulator {

SentReduction::SentReduction(const CollectiveSpec& spec, int number, InstanceGroup group,
                             Peers& peers)
    : RemoteCollective(spec, number, std::move(group), peers), fold_(spec.dtype, spec.reduction) {}

int64_t SentReduction::widest() const { return std::max(element_bytes(), fold_.partial_bytes()); }

void SentReduction::cut_slices(int64_t most) {
  const int64_t part = spec_.elements / parts();
  for (int rank = 0; rank < parts(); ++rank) {
    for (int64_t at = 0; at < part; at += most) {
      slices_.push_back({.first = rank * part + at,
                         .elements = std::min(most, part - at),
                         .first_of_result = at,
                         .rank = has_rank_parts() ? rank : -1});
    }
  }
  if (!slices_.empty()) {
    partial_ = Memory(slices_.front().elements * widest(), "a part of a collective");
  }
}

std::byte* SentReduction::result_of(const Slice& slice, size_t place) const {
  return results_[place] + slice.first_of_result * element_bytes();
}

}  // namespace poptorch::emulator
