#include "support/watch.hpp"

#include <utility>

#include "support/pass_faults.hpp"
#include "support/processor.hpp"

namespace poptorch::support {
namespace {

// The clock is read after this many ticks: 15 to 60 ms, depending on the processor.
#if defined(__aarch64__)
constexpr uint64_t kTicks = uint64_t{1} << 20;  // the counter runs at 24 to 62 MHz
#else
constexpr uint64_t kTicks = uint64_t{1} << 26;
#endif

thread_local Watch* watch_of_thread = nullptr;

}  // namespace

const char* Interrupted::what() const noexcept { return "interrupted"; }

Watch::Watch(std::function<bool()> stops, std::chrono::milliseconds first_look)
    : stops_(std::move(stops)),
      first_look_(first_look),
      outer_(std::exchange(watch_of_thread, this)),
      due_(ticks() + kTicks) {}

Watch::~Watch() { watch_of_thread = outer_; }

Watch* Watch::current() { return watch_of_thread; }

bool Watch::is_due() {
  if (first_look_ == kEveryTime) return true;
  uint64_t due = due_.load(std::memory_order_relaxed);
  const uint64_t now = ticks();
  return now >= due && due_.compare_exchange_strong(due, now + kTicks, std::memory_order_relaxed);
}

bool Watch::wants_stop() {
  if (stopped_) return true;
  if (first_look_ == kEveryTime) return stopped_ = stops_();
  const auto now = Clock::now();
  // The first call comes kTicks after the start, so that shorter work never reads the clock.
  if (next_look_ == Clock::time_point{}) next_look_ = now + first_look_;
  if (!hastened_.exchange(false) && now < next_look_) return false;
  next_look_ = now + kNextLook;
  return stopped_ = stops_();
}

void Watch::hasten() {
  hastened_ = true;
  due_.store(0, std::memory_order_relaxed);
}

void check_interrupt() {
  if (counts_visited_ops) note_visited_op();
  Watch* watch = Watch::current();
  if (watch && watch->is_due() && watch->wants_stop()) throw Interrupted();
}

}  // namespace poptorch::support
