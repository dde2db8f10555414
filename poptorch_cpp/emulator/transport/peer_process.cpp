#include "emulator/transport/peer_process.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

namespace {

// Returns the fields in /proc that follow a process's name, which may contain anything: the state,
// 18 numbers, and the start time.
std::istringstream fields_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string line = text.str();
  const size_t name = line.rfind(')');
  return std::istringstream(name == std::string::npos ? "" : line.substr(name + 1));
}

}  // namespace

uint64_t start_time(pid_t process) {
  std::istringstream fields = fields_of(process);
  char state = 'X';
  fields >> state;
  if (state == 'Z' || state == 'X') return 0;
  std::string skipped;
  for (int i = 0; i < 18; ++i) fields >> skipped;
  uint64_t started = 0;
  fields >> started;
  return fields ? started : 0;
}

std::string why_not_opened(pid_t process, int error) {
  struct stat about{};
  const bool is_visible = stat(str("/proc/", process).c_str(), &about) == 0;
  if (error == ENOENT) {
    const bool lives = kill(process, 0) == 0 || errno == EPERM;
    if (is_visible || !lives) return "";
    return str("/proc hides process ", process, ": it is mounted with the option hidepid. ",
               "Mount it without that option, or start all instances as one user");
  }
  if (error != EACCES && error != EPERM) return std::strerror(error);
  const std::string lacks =
      str("this process may not trace process ", process, " (ptrace access mode PTRACE_MODE_READ)");
  if (!is_visible || about.st_uid == geteuid()) {
    return str(lacks,
               ", although both are of one user: that process is in another user namespace, ",
               "has more capabilities, or a security module such as SELinux forbids it. Start all ",
               "instances in one container, with the same capabilities");
  }
  if (about.st_uid == 0) {
    return str(lacks,
               ", which belongs to root: it runs as root, or its executable is set-user-ID, "
               "has capabilities or is not dumpable (PR_SET_DUMPABLE). Start all instances as one "
               "user, from an executable without such privileges");
  }
  return str(lacks, ", which runs as user ", about.st_uid, " and this one as user ", geteuid(),
             ". Start all instances as one user");
}

PeerProcess::PeerProcess(pid_t process, uint64_t started) : process_(process), started_(started) {
  handle_ = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  // The process may have ended before, and another may have its number now.
  if (handle_ >= 0 && start_time(process) != started) close(std::exchange(handle_, -1));
}

PeerProcess::~PeerProcess() {
  if (handle_ >= 0) close(handle_);
}

PeerProcess& PeerProcess::operator=(PeerProcess&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(started_, other.started_);
  std::swap(handle_, other.handle_);
  return *this;
}

bool PeerProcess::has_ended() const {
  if (handle_ < 0) return start_time(process_) != started_;
  pollfd asked{.fd = handle_, .events = POLLIN, .revents = 0};
  return poll(&asked, 1, 0) > 0;
}

bool PeerProcess::is_stopped() const {
  char state = 'X';
  fields_of(process_) >> state;
  return state == 'T' || state == 't';
}

}  // namespace poptorch::emulator
