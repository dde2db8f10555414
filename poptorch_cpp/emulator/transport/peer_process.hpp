// Identifies another process of this host by its number and its start time, so that a later process
// with the same number is not taken for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace poptorch::emulator {

// Returns when a process started, in ticks since the host did; 0: it does not exist or has ended.
uint64_t start_time(pid_t process);

// Returns why open() of a file in /proc/<process>/fd failed with `error`, and what to do; empty if
// the file no longer exists.
std::string why_not_opened(pid_t process, int error);

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
  bool is_stopped() const;  // for example by SIGSTOP

 private:
  pid_t process_ = 0;
  uint64_t started_ = 0;
  int handle_ = -1;  // pidfd; -1: not available, /proc is read instead
};

}  // namespace poptorch::emulator
