// An event count: threads block on it until an event. Processes may share its memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace poptorch::emulator {

// Starts at zero. Of concurrent calls of ring() and sleep(), one sees what the other has done.
class Bell {
 public:
  // Returns how often it was notified.
  uint32_t count() const { return rung_.load(); }
  // Increments the count and wakes all sleeping threads.
  void ring();
  // Blocks until the count is no longer `seen`, or a millisecond has passed.
  void sleep(uint32_t seen);

 private:
  std::atomic<uint32_t> rung_{0};
  std::atomic<uint32_t> sleepers_{0};  // threads to be woken
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace poptorch::emulator
