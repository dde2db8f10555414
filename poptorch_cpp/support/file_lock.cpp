// Uses flock(). The holder removes the file. A waiter that gets the lock of a file that is no
// longer at its path tries again with the next file.
#include "support/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"
#include "support/whole_file.hpp"

namespace poptorch::support {
namespace {

constexpr std::chrono::milliseconds kTurn{5};

}  // namespace

FileLock::FileLock(std::string path) : path_(std::move(path)) {
  for (;;) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file_ < 0) throw UserError("[file] " + file_problem("lock", path_, errno));
    try {
      while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
          throw UserError("[file] " + file_problem("lock", path_, errno));
        }
        check_interrupt();
        std::this_thread::sleep_for(kTurn);
      }
    } catch (...) {
      close(file_);
      throw;
    }
    if (is_held()) return;
    close(file_);
  }
}

bool FileLock::is_held() const {
  struct stat ours{}, there{};
  return fstat(file_, &ours) == 0 && stat(path_.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

FileLock::~FileLock() {
  unlink(path_.c_str());
  flock(file_, LOCK_UN);  // a process that was forked meanwhile has the file open too
  close(file_);
}

}  // namespace poptorch::support
