// Another process of this host, known by its number and the time at which it began, so that a later
// process of the same number is not taken for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace poptorch::emulator {

// Of a process that is there, in ticks since the host began; 0: there is none, or it has ended.
uint64_t start_time(pid_t process);

class PeerProcess {
 public:
  PeerProcess() = default;
  PeerProcess(pid_t process, uint64_t started);
  ~PeerProcess();
  PeerProcess(PeerProcess&& other) noexcept { *this = static_cast<PeerProcess&&>(other); }
  PeerProcess& operator=(PeerProcess&& other) noexcept;
  PeerProcess(const PeerProcess&) = delete;

  pid_t number() const { return process_; }
  bool has_ended() const;
  bool is_stopped() const;  // as by SIGSTOP

 private:
  pid_t process_ = 0;
  uint64_t started_ = 0;
  int handle_ = -1;  // pidfd; -1: the system has none for us, /proc tells
};

}  // namespace poptorch::emulator
