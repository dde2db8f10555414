// The steady clock, in seconds.
#pragma once

#include <chrono>

namespace poptorch::emulator {

inline double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace poptorch::emulator
