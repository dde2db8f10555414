// Writes files atomically: under a temporary name in the same folder, synced, then renamed. After a
// kill either the old file is there or the new one. The next writer in the folder removes what a
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
  // Begins to write `path`, for its owner alone (mode 0600). A link there is replaced. Every
  // UserError of this class begins with the tag, and names the file, what the system said and what
  // to do.
  explicit WholeFile(std::string path, std::string tag = "file");
  ~WholeFile() { discard(); }
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(const void* data, size_t bytes);
  void write_at(int64_t place, const void* data, size_t bytes);
  int64_t size() const { return size_; }
  // Syncs the file, moves it to its place, and syncs the folder. Only when that last step fails is
  // the new file there after an error.
  void commit();
  // Removes what was written, unless it was committed.
  void discard();

 private:
  [[noreturn]] void fail(const char* what) const;
  void open_temporary();
  void sync_folder() const;
  void again_if_interrupted(const std::function<int()>& call) const;
  template <typename Call>
  void write_all(const void* data, size_t bytes, Call call);

  std::string path_, tag_, folder_, temporary_;
  int file_ = -1;
  int64_t size_ = 0;
};

// Returns the text of a system's error number, such as "cannot write '/a/b': No space left on
// device. Free some there, or choose another folder."
std::string file_problem(const std::string& what, const std::string& path, int error);

}  // namespace poptorch::support
