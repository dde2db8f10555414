// A collective op over a group of replicas in one process. Nothing here waits: a machine whose
// collective has not ended asks again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "emulator/bound/code.hpp"

namespace poptorch::emulator {

class Pool;  // host/pool.hpp

// One collective op of one group of replicas. The last to arrive computes everybody's result, in
// the order of replicas, with threads of the pool that have nothing else to do.
class Collective {
 public:
  // `members` of the group come here, those from rank `first_rank` on. Without a pool one thread
  // computes.
  Collective(const CollectiveSpec& spec, int members, Pool* pool, int first_rank = 0);
  virtual ~Collective() = default;
  int64_t arrive(int rank, const std::byte* operand, std::byte* result);
  bool is_done(int64_t ticket) const { return round_.load(std::memory_order_acquire) > ticket; }
  virtual void clear() { arrived_ = 0; }

 protected:
  // Requires the lock, and that all replicas have arrived. Returns whether the results are ready.
  virtual bool compute();
  // Requires the lock. Marks the results of this round as ready.
  void finish_round();

  CollectiveSpec spec_;
  Pool* pool_;
  std::mutex mutex_;
  std::vector<const std::byte*> operands_;  // of those that come here, by rank
  std::vector<std::byte*> results_;

 private:
  // The reduction of what begins `from` bytes behind each operand's begin.
  void reduce(int64_t from, int64_t elements, const std::vector<std::byte*>& into);

  int first_rank_;
  int arrived_ = 0;
  std::atomic<int64_t> round_{0};  // of those that are over
};

}  // namespace poptorch::emulator
