// Collectives whose operands are sent as messages.
//
// A reduction's operands are cut into slices. Where each instance has one rank, a slice has an
// owner to whom all others send theirs; it folds them in the order of replicas, and sends the
// result to all. Of short operands everybody owns every slice; long ones are lent, where the fabric
// can do so: then none is copied. Where an instance has several ranks, each slice goes along a
// chain: it is folded by the first instance, whose partial result goes to the next one, and so on;
// the last one has the result, which goes back along the chain (of a reduce_scatter straight to
// whose part it is). Either way the bits are those of one process. Gathers and all-to-alls only
// move bytes.
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
  // A message, or what is folded at a time: `elements` of the operands from `first` on.
  struct Slice {
    int64_t first = 0, elements = 0;
    int rank = -1;  // of a reduce_scatter: whose part it is
  };
  // Bytes that this instance sends or receives, outside of a chain.
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
  const bool is_long_;    // and one whose slices are lent
  std::optional<Fold> fold_;
  std::vector<Slice> slices_;
  Memory partial_;  // of one slice
  Tag tag_;         // of operands, and what is made of them on the way

  // Chains: slices folded, and slices whose result is through here.
  size_t folded_ = 0, returned_ = 0;
  bool has_partial_ = false, has_result_ = false;  // of the next slice: only to be sent on
  // Others.
  std::vector<std::vector<Move>> sends_, receives_;  // by place
  std::vector<size_t> sent_, received_;
  std::vector<std::deque<int64_t>> loans_;  // by place: lent and fetched, and not known to be over
  Tag receive_tag_;                         // of results that are received
  // Reductions without a chain: slices that this instance owns, of which folded_ are ready, and
  // which place is the next to be folded; how many of the results each place was sent.
  std::vector<size_t> own_, returned_to_;
  int next_place_ = 0;
  std::vector<const std::byte*> pieces_;
  // Long ones: others' operands of own slices, in their order, on their way to where they are
  // folded; how many are fetched, and how many are taken.
  struct Fetched {
    Memory memory;  // where there is no better place
    std::byte* data = nullptr;
    int64_t fetch = 0;
  };
  std::vector<Fetched> ahead_;
  size_t fetching_ = 0, taken_ = 0;
};

}  // namespace poptorch::emulator
