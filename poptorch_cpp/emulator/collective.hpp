// A collective op over a group of replicas in one process. Nothing here waits: a machine whose
// collective has not ended asks again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "emulator/step.hpp"

namespace poptorch::emulator {

// One collective op of one group of replicas. The last to arrive computes everybody's result, in
// the order of replicas, while the others wait.
class Collective {
 public:
  // `members` of the group come here, those from rank `first_rank` on.
  Collective(const CollectiveSpec& spec, int members, int first_rank = 0);
  virtual ~Collective() = default;
  int64_t arrive(int rank, const std::byte* operand, std::byte* result);
  bool is_done(int64_t ticket);
  virtual void clear() { arrived_ = 0; }

 protected:
  // Requires the lock, and that all replicas have arrived. Returns whether the results are ready.
  virtual bool compute();
  // Requires the lock. Marks the results of this round as ready.
  void finish_round();

  CollectiveSpec spec_;
  std::mutex mutex_;
  std::vector<const std::byte*> operands_;  // of those that come here, by rank
  std::vector<std::byte*> results_;

 private:
  int first_rank_;
  int arrived_ = 0;
  int64_t round_ = 0;
};

// Rank of a replica in its group.
int rank_in_group(int replica, int size, int stride);

}  // namespace poptorch::emulator
