// A reduction for groups with one rank in each instance. A slice has an owner: all others send it
// their operands; it folds them in the order of replicas and sends the result to all. Every
// instance owns every slice of short operands. Long ones use zero-copy transfers, if the fabric
// supports them.
#pragma once

#include <vector>

#include "emulator/collectives/sent_reduction.hpp"
#include "emulator/collectives/transfers.hpp"
#include "emulator/transport/fabric.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

class DirectReduction final : public SentReduction {
 public:
  DirectReduction(const CollectiveSpec& spec, int number, InstanceGroup group, Peers& peers);

 private:
  void begin() override;
  bool advance() override;
  bool is_finished() const override;
  int waits_for() const override;
  bool has_owners() const;
  int owner_of(size_t slice) const;
  int64_t longest_slice() const;
  void begin_slice(size_t slice);
  void begin_fetches();
  bool fold_next();
  bool take_operand(int place, int64_t bytes, const Fabric::Use& fold);
  void fetch_operands();
  bool folds_in_place() const;
  bool can_overwrite(size_t slice) const;
  bool return_results();
  int first_without_results() const;

  const bool is_long_;   // uses zero-copy transfers, for all slices
  Transfers transfers_;  // operands to owners, results from them
  Tag operand_tag_, result_tag_;
  std::vector<size_t> own_;                  // the slices that this instance owns
  size_t folded_ = 0;                        // of these
  support::Table<int, size_t> returned_to_;  // by place: results sent to it
  int next_place_ = 0;                       // the next to be folded into the next slice
  std::vector<const std::byte*> pieces_;

  // Zero-copy reductions use these. `ahead_` holds others' operands of own slices, in their order,
  // on their way to being folded. `fetching_` counts those requested, `taken_` those folded.
  struct Fetched {
    Memory memory;  // unused if it goes straight to the result
    std::byte* data = nullptr;
    int64_t request = 0;
  };
  std::vector<Fetched> ahead_;
  size_t fetching_ = 0, taken_ = 0;
};

}  // namespace poptorch::emulator
