// A collective of a group whose replicas several instances run. It moves on as messages come:
// nothing here waits. How operands reach the others: sent_collective.hpp, lent_collective.hpp.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "emulator/bound/far_group.hpp"
#include "emulator/collectives/collective.hpp"
#include "emulator/collectives/peers.hpp"

namespace poptorch::emulator {

class FarCollective : public Collective {
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
  void clear() final;

 protected:
  // With the lock, all of them. A round begins: the operands and results are there.
  virtual void begin() = 0;
  // Goes on; whether it could.
  virtual bool advance() = 0;
  virtual bool is_finished() const = 0;
  virtual int waits_for() const = 0;

  // Of this round's messages of one kind, of which there are three.
  Tag tag(uint32_t kind) const;
  bool has_rank_parts() const { return spec_.kind == CollectiveKind::kReduceScatter; }
  int64_t element_bytes() const { return ir::size_of(spec_.dtype); }

  const FarGroup group_;
  Peers& peers_;

 private:
  bool compute() final;
  void keep_own();

  const int number_;
  std::atomic<bool> under_way_{false};
  uint32_t round_ = 0;  // of this run
};

// As operands of this group reach each other.
std::unique_ptr<FarCollective> make_far_collective(const CollectiveSpec& spec, int number,
                                                   FarGroup group, Peers& peers);

}  // namespace poptorch::emulator
