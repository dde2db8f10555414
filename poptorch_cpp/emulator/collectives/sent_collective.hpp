// Collectives whose operands are sent as messages.
//
// A reduction's operands are cut into slices. If each instance has one rank, a slice has an owner.
// All others send it their operands; it folds them in the order of replicas and sends the result to
// all. Every instance owns every slice of short operands. Long ones use zero-copy transfers, if the
// fabric supports them. If an instance has several ranks, each slice goes along a chain: the first
// instance folds it, sends its partial result to the next one, and so on. The last one has the
// result, which goes back along the chain (in a reduce_scatter, straight to the rank whose part it
// is). Either way the results are bit-identical to those of one process. Gathers and all-to-alls
// only move bytes.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "emulator/collectives/far_collective.hpp"
#include "emulator/collectives/fold.hpp"
#include "emulator/host/memory.hpp"
#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {

class SentCollective final : public FarCollective {
 public:
  SentCollective(const CollectiveSpec& spec, int number, FarGroup group, Peers& peers);

 private:
  // Describes a message, or one step of folding: `elements` of the operands from `first` on.
  struct Slice {
    int64_t first = 0, elements = 0;
    int rank = -1;  // of a reduce_scatter: the one whose part it is
  };
  // Describes bytes that this instance sends or receives outside of a chain.
  struct Move {
    int other = 0;
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };

  void begin() override;
  bool advance() override;
  bool is_finished() const override;
  int waits_for() const override;
  void cut_slices();
  void begin_gather();
  void begin_all_to_all();
  void add_moves(std::vector<Move>& moves, int other, const std::byte* data, int64_t bytes) const;
  bool lend(int place, const Tag& tag, const std::byte* data, int64_t bytes);
  bool fetch(int place, const Tag& tag, std::byte* into, int64_t bytes);
  bool note_loan(int place, int64_t loan);
  bool settle();
  bool move_all();
  bool has_moved_all() const;
  void begin_direct();
  bool has_owners() const;
  int owner_of(size_t slice) const;
  bool advance_direct();
  bool fold_direct();
  bool take_operand(int place, int64_t bytes, const Fabric::Use& fold);
  void fetch_operands();
  bool folds_in_place() const;
  bool can_overwrite(size_t slice) const;
  bool return_direct();
  bool fold_next();
  bool fold_here(const Slice& slice, int64_t bytes);
  void finish(const Slice& slice, const Fold::Part& part);
  bool return_next();
  int64_t most_bytes() const;
  bool is_last() const { return group_.here + 1 == static_cast<int>(group_.instances.size()); }
  std::byte* result_of(const Slice& slice, size_t place) const;
  void hand_out(const Slice& slice) const;

  const bool is_direct_;  // a reduction without a chain
  const bool is_long_;    // and one with zero-copy transfers
  std::optional<Fold> fold_;
  std::vector<Slice> slices_;
  Memory partial_;  // of one slice
  Tag tag_;         // of operands, partial results and, in chains, results

  // Chains count slices folded, and slices whose result has passed this instance.
  size_t folded_ = 0, returned_ = 0;
  bool has_partial_ = false, has_result_ = false;  // of the next slice: only sending is left
  // All collectives except chains use these.
  std::vector<std::vector<Move>> sends_, receives_;  // by place
  std::vector<size_t> sent_, received_;
  std::vector<std::deque<int64_t>> loans_;  // by place: zero-copy transfers not known to be over
  Tag receive_tag_;                         // of what is received
  // Reductions without a chain use these. `own_` lists the slices that this instance owns, of which
  // `folded_` are ready; `returned_to_` counts the results sent to each place. `next_place_` is the
  // next place to be folded.
  std::vector<size_t> own_, returned_to_;
  int next_place_ = 0;
  std::vector<const std::byte*> pieces_;
  // Zero-copy reductions use these. `ahead_` holds others' operands of own slices, in their order,
  // on their way to being folded. `fetching_` counts those requested, `taken_` those folded.
  struct Fetched {
    Memory memory;  // unused if it goes straight to the result
    std::byte* data = nullptr;
    int64_t fetch = 0;
  };
  std::vector<Fetched> ahead_;
  size_t fetching_ = 0, taken_ = 0;
};

}  // namespace poptorch::emulator
