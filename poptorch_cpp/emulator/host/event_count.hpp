// An event count: threads block on it until an event. Processes may share its memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace poptorch::emulator {

// Starts at zero. Of concurrent calls of notify() and sleep(), one sees what the other has done.
class EventCount {
 public:
  // Returns how often it was notified.
  uint32_t count() const { return count_.load(); }
  // Increments the count and wakes all sleeping threads.
  void notify();
  // Blocks until the count is no longer `seen`, or a millisecond has passed.
  void sleep(uint32_t seen);

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> sleepers_{0};  // threads to be woken
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace poptorch::emulator
