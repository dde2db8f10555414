// Stops work from outside: runs and compilations. The code that starts such work makes a Watch. The
// work asks it regularly, at a cost of some nanoseconds, whether it should continue.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>

namespace poptorch::support {

// Thrown by work that its watch has stopped. It is not an Error, because nothing went wrong.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override;
};

// Watches the work of the thread that makes it, during its own lifetime. An inner one replaces the
// outer one.
class Watch {
 public:
  static constexpr std::chrono::milliseconds kFirstLook{300};
  // A `first_look` for tests: `stops` is called whenever the work asks.
  static constexpr std::chrono::milliseconds kEveryTime{-1};

  // `stops` returns whether the work should end. It must not throw. Only the thread that made the
  // watch calls it: when the work has lasted `first_look`, and then every kNextLook.
  explicit Watch(std::function<bool()> stops, std::chrono::milliseconds first_look = kFirstLook);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  static Watch* current();  // of this thread, or nullptr

  // Returns whether the owner should call wants_stop(). Of several threads that ask, one gets true.
  bool is_due();
  // Returns whether the work should end; once true, always true. Only the owner may call it.
  bool wants_stop();
  // Makes the next look due at once. Any thread may call it.
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

// Raises Interrupted when this thread's watch stops its work. Loops of a compilation call it.
void check_interrupt();

}  // namespace poptorch::support
