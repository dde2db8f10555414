// Files that are there whole or not at all: written beside their place under a name of their own,
// made durable, then renamed. After a kill the old file is there or the new one. What a killed
// writer left is taken away by the next writer of the same file.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace poptorch::support {

// The calls of the system that a writer makes. Tests put others here.
struct FileCalls {
  ssize_t (*write)(int file, const void* data, size_t bytes);
  ssize_t (*write_at)(int file, const void* data, size_t bytes, off_t place);
  int (*sync)(int file);
  int (*rename)(const char* from, const char* to);
};
FileCalls& file_calls();

class WholeFile {
 public:
  // Begins to write `path`, for its owner alone (mode 0600). UserError, as everywhere here, names
  // the file, what the system said and what to do.
  explicit WholeFile(std::string path);
  ~WholeFile();  // without commit(): as if nothing had been written
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(const void* data, size_t bytes);
  void write_at(int64_t place, const void* data, size_t bytes);
  int64_t size() const { return size_; }
  // From here on the file is at its place.
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

// "cannot write '/a/b': No space left on device. Free some there, or choose another folder." of a
// system's error number.
std::string file_problem(const std::string& what, const std::string& path, int error);

}  // namespace poptorch::support
