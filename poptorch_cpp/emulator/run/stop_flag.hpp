// Says whether the threads of a run must stop. Worker 0, the thread that called for the run, asks
// its watch; another worker that finds the watch due makes worker 0 ask.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "emulator/host/pool.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {

class StopFlag {
 public:
  explicit StopFlag(Pool& pool) : pool_(pool) {}

  // Begins a run, with the watch of this thread.
  void begin_run() {
    watch_ = support::Watch::current();
    is_set_ = is_due_ = false;
  }
  bool is_set() const { return is_set_.load(std::memory_order_relaxed); }
  void set() { is_set_ = true; }
  // Makes worker 0 ask the watch. Worker 0 does so at its next call of may_continue(); for another
  // worker, returns when it has: what happened before cannot come after the end of the run.
  void ask(int worker) {
    if (!watch_) return;
    watch_->hasten();
    const uint32_t asked = times_asked_;
    // Worker 0 may have begun to ask before this call, so that one time is not enough.
    while (worker != 0 && times_asked_ - asked < 2 && !is_set()) {
      is_due_ = true;
      pool_.announce();
      std::this_thread::yield();
    }
  }
  // Returns whether the worker may continue. Takes some nanoseconds, except when the watch is due,
  // which is rare.
  bool may_continue(int worker) {
    if (is_set()) return false;
    if (!watch_) return true;
    const bool due = watch_->is_due();
    if (worker == 0) {
      if (due || is_due_.load(std::memory_order_relaxed)) {
        is_due_ = false;
        if (watch_->wants_stop()) set();
        ++times_asked_;
      }
    } else if (due) {
      is_due_ = true;
      pool_.announce();
    }
    return !is_set();
  }

 private:
  Pool& pool_;
  support::Watch* watch_ = nullptr;
  std::atomic<bool> is_set_{false};
  std::atomic<bool> is_due_{false};  // another worker has found the watch due
  std::atomic<uint32_t> times_asked_{0};
};

}  // namespace poptorch::emulator
