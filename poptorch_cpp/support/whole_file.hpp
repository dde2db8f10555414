// Writes files atomically: under a temporary name in the same folder, synced, then renamed. After a
// kill either the old file is there or the new one. The next writer of the same file removes what a
// killed writer left.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace poptorch::support {

// The system calls of a writer. Tests replace them.
struct FileCalls {
  ssize_t (*write)(int file, const void* data, size_t bytes);
  ssize_t (*write_at)(int file, const void* data, size_t bytes, off_t place);
  int (*sync)(int file);
  int (*rename)(const char* from, const char* to);
};
FileCalls& file_calls();

class WholeFile {
 public:
  // Begins to write `path`, for its owner alone (mode 0600). Every UserError of this class names
  // the file, what the system said and what to do.
  explicit WholeFile(std::string path);
  ~WholeFile();  // without commit(), discards what was written
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(const void* data, size_t bytes);
  void write_at(int64_t place, const void* data, size_t bytes);
  int64_t size() const { return size_; }
  // Syncs the file and moves it to its place.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  void open_temporary();
  void again_if_interrupted(const std::function<int()>& call) const;
  template <typename Call>
  void write_all(const void* data, size_t bytes, Call call);

  std::string path_, folder_, temporary_;
  int file_ = -1;
  int64_t size_ = 0;
};

// Returns the text of a system's error number, such as "cannot write '/a/b': No space left on
// device. Free some there, or choose another folder."
std::string file_problem(const std::string& what, const std::string& path, int error);

}  // namespace poptorch::support
