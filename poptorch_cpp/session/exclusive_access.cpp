#include "session/exclusive_access.hpp"

#include <algorithm>
#include <chrono>

#include "emulator/providers/custom_provider.hpp"
#include "support/error.hpp"
#include "support/watch.hpp"

namespace poptorch::session {

void ExclusiveAccess::enter(IfTaken if_taken) {
  using std::chrono::microseconds;
  constexpr microseconds kLongestNap{1000};
  const std::thread::id self = std::this_thread::get_id();
  microseconds nap{20};
  if (emulator::inside_custom_op()) {
    throw support::UserError(
        "[run] a custom op that a model runs uses a compiled model. Do not use one there.");
  }
  for (std::thread::id holder;
       !holder_.compare_exchange_strong(holder, self, std::memory_order_acquire);
       holder = std::thread::id()) {
    if (holder == self) {
      throw support::UserError(
          "[run] a signal handler uses the model whose run it interrupted, in the same thread. Let "
          "the handler set a flag, and read the flag after the call has returned.");
    }
    if (if_taken == IfTaken::kRefuse) {
      throw support::UserError(
          "[destroy] another thread runs the model. Wait for its call to return, or interrupt it.");
    }
    support::check_interrupt();
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kLongestNap);
  }
}

}  // namespace poptorch::session
