// A collective of a group whose replicas several instances run. Each moves on as messages come:
// nothing here waits.
//
// A reduction's operands are cut into slices. Where each instance has one rank, a slice has an
// owner to whom all others send theirs; it folds them in the order of replicas, and sends the
// result to all. Between two instances, and of short operands, everybody owns every slice. Where an
// instance has several ranks, each slice goes along a chain: it is folded by the first instance,
// whose partial result goes to the next one, and so on; the last one has the result, which goes
// back along the chain (of a reduce_scatter straight to whose part it is). Either way the bits are
// those of one process. Gathers and all-to-alls only move bytes.
#pragma once

#include <optional>
#include <vector>

#include "emulator/exchange.hpp"
#include "emulator/fold.hpp"
#include "emulator/memory.hpp"
#include "emulator/peers.hpp"

namespace poptorch::emulator {

// The instances that run replicas of a group, and the first rank of each.
struct FarGroup {
  int number = 0;              // program::group_of
  std::vector<int> instances;  // ascending
  std::vector<int> begins;     // rank of each one's first replica; then the number of ranks
  int here = 0;                // this one's place among `instances`

  FarGroup(const Share& share, int number, int replicas, int size, int stride);
  int ranks() const { return begins.back(); }
  int count(int place) const {
    return begins[static_cast<size_t>(place) + 1] - begins[static_cast<size_t>(place)];
  }
  int begin() const { return begins[static_cast<size_t>(here)]; }
  int instance(int place) const { return instances[static_cast<size_t>(place)]; }
  int place_of(int rank) const;
};

class FarCollective final : public Collective {
 public:
  // `number` of the program's collectives.
  FarCollective(const CollectiveSpec& spec, int number, FarGroup group, Peers& peers);

  // All instances count rounds from here on alike, wherever a run before it ended.
  void begin_run() { round_ = 0; }
  // Goes on as far as possible; whether that was to its end: who asked takes it off
  // Peers::under_way, once the machines are told.
  bool poll();
  bool is_under_way() const { return under_way_.load(std::memory_order_relaxed); }
  // Whom it waits for, of those under way.
  int awaited();
  int number() const { return number_; }
  const FarGroup& group() const { return group_; }
  void clear() override;

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

  bool compute() override;
  bool advance();
  void cut_slices();
  void begin_gather();
  void begin_all_to_all();
  void add_moves(std::vector<Move>& moves, int other, const std::byte* data, int64_t bytes) const;
  bool move_all();
  bool has_moved_all() const;
  void begin_direct();
  int owner_of(size_t slice) const;
  bool advance_direct();
  bool fold_direct();
  bool can_overwrite(size_t slice) const;
  bool return_direct();
  bool fold_next();
  bool fold_here(const Slice& slice, int64_t bytes);
  void finish(const Slice& slice, const Fold::Part& part);
  bool return_next();
  bool is_finished() const;
  bool is_last() const { return group_.here + 1 == static_cast<int>(group_.instances.size()); }
  std::byte* result_of(const Slice& slice, size_t place) const;
  void hand_out(const Slice& slice) const;

  const int number_;
  const FarGroup group_;
  Peers& peers_;
  const bool rank_parts_;  // reduce_scatter
  const bool is_direct_;   // a reduction without a chain
  std::optional<Fold> fold_;
  int64_t element_bytes_;
  std::vector<Slice> slices_;
  Memory partial_;  // of one slice
  std::atomic<bool> under_way_{false};
  uint32_t round_ = 0;  // of this run
  Tag tag_;

  // Chains: slices folded, and slices whose result is through here.
  size_t folded_ = 0, returned_ = 0;
  bool has_partial_ = false, has_result_ = false;  // of the next slice: only to be sent on
  // Others.
  std::vector<std::vector<Move>> sends_, receives_;  // by place
  std::vector<size_t> sent_, received_;
  Tag receive_tag_;
  // Reductions without a chain: slices that this instance owns, of which folded_ are ready, and
  // which place is the next to be folded; how many of the results each place was sent.
  std::vector<size_t> own_, returned_to_;
  int next_place_ = 0;
  std::vector<const std::byte*> pieces_;
};

}  // namespace poptorch::emulator
