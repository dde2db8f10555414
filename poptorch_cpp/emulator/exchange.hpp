// Where machines (one IPU of one replica each) meet: channels between IPUs, the barrier of a
// replica, collectives across replicas. Nothing here waits: a machine that cannot go on is told so
// and asks again, so any number of threads runs any number of machines.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "emulator/memory.hpp"
#include "emulator/step.hpp"

namespace poptorch::emulator {

// A queue of tensors from one IPU to another, in order. A full queue asks the sender to let others
// work first; when nobody else can, it grows.
class Channel {
 public:
  explicit Channel(int64_t bytes) : bytes_(bytes) {}
  bool send(const std::byte* data, bool even_if_full);  // false: full
  bool receive(std::byte* data);                        // false: empty
  void clear();
  int64_t memory() const { return static_cast<int64_t>(slots_.size()) * bytes_; }

 private:
  int64_t bytes_;
  std::mutex mutex_;
  std::vector<Memory> slots_;
  std::vector<size_t> full_;   // slots in order of sending, a ring
  std::vector<size_t> empty_;  // slots to reuse
  size_t first_ = 0, count_ = 0;
};

// All members arrive, then all go on.
class Barrier {
 public:
  explicit Barrier(int members) : members_(members) {}
  // The number to wait for; the last to arrive opens the barrier.
  int64_t arrive();
  bool is_open(int64_t ticket);
  void clear() { arrived_ = 0; }

 private:
  std::mutex mutex_;
  int members_, arrived_ = 0;
  int64_t round_ = 0;
};

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
  // With the lock, when all have arrived: whether the results are there.
  virtual bool compute();
  // With the lock: they are.
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
