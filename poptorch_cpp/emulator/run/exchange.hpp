// Communication between the machines of one replica (one per IPU): channels between IPUs, and the
// replica's barrier. No function here blocks: it returns whether the machine can continue, and a
// machine that cannot tries again later. So any number of threads can run any number of machines.
// collective.hpp has the communication across replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "emulator/host/memory.hpp"

namespace poptorch::emulator {

// A FIFO queue of tensors from one IPU to another. If it is full, the sender waits while other
// machines run; if no other machine can continue, the queue grows.
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
  std::vector<size_t> full_;   // ring buffer of slots, in the order of sending
  std::vector<size_t> empty_;  // slots to reuse
  size_t first_ = 0, count_ = 0;
};

// Opens when all members have arrived.
class Barrier {
 public:
  explicit Barrier(int members) : members_(members) {}
  // Returns the ticket to pass to is_open(). The last arrival opens the barrier.
  int64_t arrive();
  bool is_open(int64_t ticket);
  void clear() { arrived_ = 0; }

 private:
  std::mutex mutex_;
  int members_, arrived_ = 0;
  int64_t round_ = 0;
};

}  // namespace poptorch::emulator
