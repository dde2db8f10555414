// Work that can be stopped from outside: runs and compilations. Whoever starts one makes a Watch;
// the work asks it at every turn, which costs some nanoseconds, whether it should go on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>

namespace poptorch::support {

// Leaves work that its watch has stopped. No Error: nobody did anything wrong.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override;
};

// Watches the work of the thread that makes it, until its end. An inner one replaces the outer.
class Watch {
 public:
  static constexpr std::chrono::milliseconds kFirstLook{300};
  // In place of a time: `stops` is asked whenever the work asks. For tests.
  static constexpr std::chrono::milliseconds kEveryTime{-1};

  // `stops`: whether the work should end. It must not throw. Asked by the thread that made the
  // watch alone, when the work has lasted `first_look`, and every kNextLook from then on.
  explicit Watch(std::function<bool()> stops, std::chrono::milliseconds first_look = kFirstLook);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  static Watch* current();  // of this thread; nullptr: nobody watches

  // Whether the owner should call wants_stop(). Of several threads that ask, one is told.
  bool is_due();
  // By the owner alone. Once true, always true.
  bool wants_stop();
  // By any thread: the next look is due at once.
  void hasten();

  static constexpr std::chrono::milliseconds kNextLook{150};

 private:
  using Clock = std::chrono::steady_clock;

  std::function<bool()> stops_;
  std::chrono::milliseconds first_look_;
  Watch* outer_;
  std::atomic<uint64_t> due_;  // in ticks of the processor
  Clock::time_point next_look_ = {};
  std::atomic<bool> hastened_{false};
  bool stopped_ = false;
};

// Raises Interrupted when this thread's watch stops its work. For loops of a compilation.
void check_interrupt();

}  // namespace poptorch::support
