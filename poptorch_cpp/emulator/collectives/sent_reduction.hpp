// The common part of reductions whose operands are sent to other instances. The operands are cut
// into slices; the results are bit-identical to those of one process.
#pragma once

#include <vector>

#include "emulator/collectives/fold.hpp"
#include "emulator/collectives/remote_collective.hpp"
#include "emulator/host/memory.hpp"

namespace poptorch::emulator {

class SentReduction : public RemoteCollective {
 protected:
  // Describes a message, or one step of folding: `elements` of the operands from `first` on.
  struct Slice {
    int64_t first = 0, elements = 0;
    int64_t first_of_result = 0;
    int rank = -1;  // of a reduce_scatter: the one whose part it is
  };

  SentReduction(const CollectiveSpec& spec, int number, InstanceGroup group, Peers& peers);

  // Cuts the operands into slices of at most `most` elements, each for all or for one of parts().
  void cut_slices(int64_t most);
  // Returns the number of parts of a result that different ranks get.
  int parts() const { return has_rank_parts() ? group_.ranks() : 1; }
  // Returns the most bytes that one element of an operand, a result or a partial result has.
  int64_t widest() const;
  // Returns the slice's result of the replica at `place` among those here.
  std::byte* result_of(const Slice& slice, size_t place) const;

  const Fold fold_;
  std::vector<Slice> slices_;
  Memory partial_;  // of one slice
};

}  // namespace poptorch::emulator
