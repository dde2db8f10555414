// A lock between processes and threads. Its file exists while a thread holds the lock or waits for
// it. The system releases the lock when its holder dies.
#pragma once

#include <string>

namespace poptorch::support {

class FileLock {
 public:
  // Waits for the lock; the watch of the calling thread may stop that. Throws UserError if the file
  // cannot be made.
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
