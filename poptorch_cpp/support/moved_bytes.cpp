#include "support/moved_bytes.hpp"

#include <chrono>
#include <memory>
#include <utility>

namespace poptorch::support {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause{50};

struct Listener {
  MovedBytes told;
  int64_t untold = 0;
  Clock::time_point next = Clock::now();
};

thread_local std::unique_ptr<Listener> listener_of_thread;

}  // namespace

void tell_moved_bytes(MovedBytes listener) {
  listener_of_thread =
      listener ? std::make_unique<Listener>(Listener{std::move(listener)}) : nullptr;
}

void note_moved_bytes(int64_t bytes) {
  Listener* listener = listener_of_thread.get();
  if (!listener) return;
  listener->untold += bytes;
  const auto now = Clock::now();
  if (now < listener->next) return;
  listener->next = now + kPause;
  listener->told(std::exchange(listener->untold, 0));
}

}  // namespace poptorch::support
