// What threads sleep at until something comes: a counter, in memory that processes may share.
#pragma once

#include <atomic>
#include <cstdint>

namespace poptorch::emulator {

// Zero at first. Between ring() and sleep(), one of both sees what the other has done.
class Bell {
 public:
  // How often it has rung.
  uint32_t count() const { return rung_.load(); }
  // Wakes whoever sleeps.
  void ring();
  // Until it has rung more than `seen` times, or a millisecond has passed.
  void sleep(uint32_t seen);

 private:
  std::atomic<uint32_t> rung_{0};
  std::atomic<uint32_t> sleepers_{0};  // who must be woken
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace poptorch::emulator
