// How a thread waits for another one that needs its result soon.
#pragma once

#include <sched.h>

#include "support/processor.hpp"

namespace poptorch::emulator {

// Spins for some rounds, then yields the core in each. The count of rounds stops there: a wait has
// no longest duration.
class Backoff {
 public:
  // A round is a pause of roughly 40 cycles: all of them take 10 to 20 us.
  static constexpr int kSpins = 1000;

  explicit Backoff(int rounds = 0) : rounds_(rounds) {}

  bool yields() const { return rounds_ >= kSpins; }

  void wait() {
    if (yields()) {
      sched_yield();
    } else {
      support::pause();
      ++rounds_;
    }
  }

 private:
  int rounds_;
};

}  // namespace poptorch::emulator
