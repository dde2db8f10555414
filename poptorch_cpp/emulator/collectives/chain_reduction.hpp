// A reduction for groups with several ranks in some instance. Each slice goes along a chain: the
// first instance folds its operands, sends its partial result to the next one, and so on. The last
// one has the result, which goes back along the chain (in a reduce_scatter, straight to the rank
// whose part it is).
#pragma once

#include "emulator/collectives/sent_reduction.hpp"
#include "emulator/transport/tag.hpp"

namespace poptorch::emulator {

class ChainReduction final : public SentReduction {
 public:
  ChainReduction(const CollectiveSpec& spec, int number, InstanceGroup group, Peers& peers);

 private:
  void begin() override;
  bool advance() override;
  bool is_finished() const override;
  int waits_for() const override;
  bool fold_next();
  bool fold_here(const Slice& slice, int64_t bytes);
  void finish(const Slice& slice, const Fold::Part& part);
  bool return_next();
  bool return_whole(const Slice& slice, int64_t bytes);
  bool send_result(const Slice& slice, int64_t bytes);
  bool is_last() const { return group_.here + 1 == group_.places(); }
  void copy_to_others_here(const Slice& slice) const;

  Tag tag_;                                        // of partial results and results in this round
  size_t folded_ = 0;                              // slices
  size_t returned_ = 0;                            // slices whose result has passed this instance
  bool has_partial_ = false, has_result_ = false;  // of the next slice: only sending is left
};

}  // namespace poptorch::emulator
