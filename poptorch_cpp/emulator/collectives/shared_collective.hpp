// Collectives whose operands the instances of a host read in place, in shared memory
// (shared_pages.hpp).
//
// Each instance announces where its operands and results are. In a reduction it folds its share,
// the operands of all replicas in their order, block by block into its own results. It announces
// each block, and the others copy it to theirs. In other collectives it copies the operands that it
// needs. An instance may reuse its shared memory when all others have reported that they need
// nothing more. The results are bit-identical to those of one process: one rule folds in both.
#pragma once

#include <optional>
#include <vector>

#include "emulator/collectives/fold.hpp"
#include "emulator/collectives/remote_collective.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

class SharedCollective final : public RemoteCollective {
 public:
  SharedCollective(const CollectiveSpec& spec, int number, InstanceGroup group, Peers& peers);

 private:
  // Lists the kinds of messages, in their order.
  enum Kind : uint32_t {
    kWhere,  // the places of operands and results
    kReady,  // one more block of the sender's share is folded
    kTaken,  // the sender needs nothing more
  };
  // Holds one replica's offsets in the shared memory of its instance.
  struct Where {
    int64_t operand = 0, result = 0;
  };
  // Describes another instance of the group in this round.
  struct Other {
    bool was_told = false, has_told = false;          // kWhere is sent, received
    bool is_here = false;                             // its shared memory can be read
    int64_t announced = 0;                            // to it, blocks of the share here
    int64_t ready = 0, copied = 0;                    // blocks of its share: announced, copied here
    bool was_released = false, has_released = false;  // kTaken is sent, received
    const std::byte* result = nullptr;                // of its first replica
  };
  // Describes the elements of the operands that a place folds.
  struct Part {
    int64_t first = 0, elements = 0;
  };

  void begin() override;
  bool advance() override;
  bool is_finished() const override;
  int waits_for() const override;

  template <typename Does>
  bool for_others(Does does);
  bool tell_where(int place, Other& other);
  bool hear_where(int place, Other& other);
  bool find_pages(int place, Other& other);
  bool are_all_here() const;
  bool has_all() const;
  Part part_of(int place) const;
  int64_t blocks_of(int place) const;
  int first_rank(int place) const { return group_.begins[place]; }
  bool is_shared_out() const { return spec_.kind == CollectiveKind::kAllReduce; }
  bool work();
  void move();
  void fold_block();
  bool announce(int place, Other& other);
  bool copy_block(int place, Other& other);
  bool release(int place, Other& other);

  const int64_t operand_bytes_;
  const int64_t block_;  // elements
  std::optional<Fold> fold_;
  support::Table<int, Other> others_;     // by place
  std::vector<const std::byte*> pieces_;  // operands, by rank
  std::vector<Where> where_;              // offsets in shared memory, by rank
  int64_t folded_ = 0;                    // blocks of the share here
  bool has_moved_ = false;
};

}  // namespace poptorch::emulator
