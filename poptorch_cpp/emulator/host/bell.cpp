#include "emulator/host/bell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace poptorch::emulator {

void Bell::ring() {
  rung_.fetch_add(1);
  if (sleepers_.load() > 0) {
    syscall(SYS_futex, &rung_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void Bell::sleep(uint32_t seen) {
  const timespec longest{.tv_sec = 0, .tv_nsec = 1000000};
  sleepers_.fetch_add(1);
  syscall(SYS_futex, &rung_, FUTEX_WAIT, seen, &longest, nullptr, 0);
  sleepers_.fetch_sub(1);
}

}  // namespace poptorch::emulator
