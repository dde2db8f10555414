// A collective op over a group of replicas in one process. Nothing here blocks: a machine polls
// until its collective has ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "emulator/bound/code.hpp"

namespace poptorch::emulator {

class Pool;  // host/pool.hpp

// Runs one collective op of one group of replicas. The last replica to arrive computes all results,
// in the order of replicas, with idle threads of the pool.
class Collective {
 public:
  // `members` replicas of the group arrive here, from rank `first_rank` on. Without a pool one
  // thread computes.
  Collective(const CollectiveSpec& spec, int members, Pool* pool, int first_rank = 0);
  virtual ~Collective() = default;
  int64_t arrive(int rank, const std::byte* operand, std::byte* result);
  bool is_done(int64_t ticket) const { return round_.load(std::memory_order_acquire) > ticket; }
  virtual void clear() { arrived_ = 0; }

 protected:
  // Requires `mutex_`, and that all replicas have arrived. Returns whether the results are ready.
  virtual bool compute();
  // Requires `mutex_`. Marks the results of this round as ready.
  void finish_round();

  CollectiveSpec spec_;
  Pool* pool_;
  std::mutex mutex_;
  std::vector<const std::byte*> operands_;  // of the replicas that arrive here, by rank
  std::vector<std::byte*> results_;

 private:
  // Reduces `elements`, which begin `from` bytes after the beginning of each operand.
  void reduce(int64_t from, int64_t elements, const std::vector<std::byte*>& into);

  int first_rank_;
  int arrived_ = 0;
  std::atomic<int64_t> round_{0};  // rounds that are over
};

}  // namespace poptorch::emulator
