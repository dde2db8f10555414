// A collective of a group whose replicas run in several instances. It advances as messages arrive;
// nothing here blocks. The derived classes bring operands to the others: chain_reduction.hpp,
// direct_reduction.hpp and sent_gather.hpp in messages, shared_collective.hpp in shared memory.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "emulator/bound/instance_group.hpp"
#include "emulator/collectives/collective.hpp"
#include "emulator/collectives/peers.hpp"

namespace poptorch::emulator {

class RemoteCollectives;  // remote_collectives.hpp

class RemoteCollective : public Collective {
 public:
  // `number` is its index among the program's collectives.
  RemoteCollective(const CollectiveSpec& spec, int number, InstanceGroup group, Peers& peers);

  // Restarts the count of rounds, so that it is equal in all instances wherever an earlier run
  // ended.
  void begin_run() { round_ = 0; }
  // Puts it on the list, which counts it from the beginning of a round that must wait.
  void join(RemoteCollectives& list) { list_ = &list; }
  // Advances without blocking. Returns true once, when the collective completes.
  bool poll();
  bool is_under_way() const { return under_way_.load(std::memory_order_relaxed); }
  // Returns an instance that it waits for. Requires that it is under way.
  int awaited();
  int number() const { return number_; }
  const InstanceGroup& group() const { return group_; }
  void clear() final;

 protected:
  // Begins a round, whose operands and results are set. These require `mutex_`.
  virtual void begin() = 0;
  // Advances without blocking. Returns whether anything moved.
  virtual bool advance() = 0;
  virtual bool is_finished() const = 0;
  // Returns the place of an instance that it waits for, or -1 if that may be any.
  virtual int waits_for() const = 0;

  // Returns the tag of this round's messages of one of three kinds.
  Tag tag(uint32_t kind) const;
  bool has_rank_parts() const { return spec_.kind == CollectiveKind::kReduceScatter; }
  int64_t element_bytes() const { return ir::size_of(spec_.dtype); }

  const InstanceGroup group_;
  Peers& peers_;

 private:
  bool compute() final;

  const int number_;
  RemoteCollectives* list_ = nullptr;
  std::atomic<bool> under_way_{false};
  uint32_t round_ = 0;  // of this run
};

// Makes the kind of collective that suits how operands of this group reach each other.
std::unique_ptr<RemoteCollective> make_remote_collective(const CollectiveSpec& spec, int number,
                                                         InstanceGroup group, Peers& peers);

}  // namespace poptorch::emulator
