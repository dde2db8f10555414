// Measures how long the runs of a compiled model take, and how long it waits between them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "account/figures.hpp"

namespace poptorch::session {

// One thread at a time may call note(); any thread may read the times at any time.
class RunClock {
 public:
  static int64_t now() {  // nanoseconds
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
  }

  static double seconds_since(int64_t began) { return 1e-9 * static_cast<double>(now() - began); }

  // Notes that a run that began at `began` has ended.
  void note(int64_t began) {
    const int64_t ended = now();
    if (last_end_ > 0) add(between_, began - last_end_);
    add(in_, ended - began);
    add(runs_, 1);
    last_end_ = ended;
  }

  account::RunTimes times() const {
    return {runs_.load(std::memory_order_relaxed), seconds(in_), seconds(between_)};
  }

 private:
  static void add(std::atomic<int64_t>& sum, int64_t more) {
    sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  static double seconds(const std::atomic<int64_t>& nanoseconds) {
    return 1e-9 * static_cast<double>(nanoseconds.load(std::memory_order_relaxed));
  }

  std::atomic<int64_t> runs_{0}, in_{0}, between_{0};
  int64_t last_end_ = 0;
};

}  // namespace poptorch::session
