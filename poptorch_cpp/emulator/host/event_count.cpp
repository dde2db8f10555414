#include "emulator/host/event_count.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace poptorch::emulator {

void EventCount::notify() {
  count_.fetch_add(1);
  if (sleepers_.load() > 0) {
    syscall(SYS_futex, &count_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void EventCount::sleep(uint32_t seen) {
  const timespec longest{.tv_sec = 0, .tv_nsec = 1000000};
  sleepers_.fetch_add(1);
  syscall(SYS_futex, &count_, FUTEX_WAIT, seen, &longest, nullptr, 0);
  sleepers_.fetch_sub(1);
}

}  // namespace poptorch::emulator
