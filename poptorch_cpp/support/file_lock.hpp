// A lock between processes and threads, which is a file while somebody holds it or waits. The
// system gives it back when its holder dies.
#pragma once

#include <string>

namespace poptorch::support {

class FileLock {
 public:
  // Waits for it; the watch of the calling thread may stop that. UserError where the file cannot
  // be made.
  explicit FileLock(std::string path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  bool is_held() const;

  std::string path_;
  int file_ = -1;
};

}  // namespace poptorch::support
