// Where the machines of one replica (an IPU each) meet: channels between IPUs, and the replica's
// barrier. Nothing here waits: a machine that cannot go on is told so and asks again, so any number
// of threads runs any number of machines. Across replicas: collective.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "emulator/host/memory.hpp"

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

}  // namespace poptorch::emulator
