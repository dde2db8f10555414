// A writer holds a lock on its temporary file. A temporary file without a lock is left over.
#include "support/whole_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "support/error.hpp"
#include "support/faults.hpp"
#include "support/strings.hpp"

namespace poptorch::support {
namespace {

constexpr std::string_view kPrefix = ".poptorch-unfinished-";

struct Folder {
  explicit Folder(const std::string& path) : handle(opendir(path.c_str())) {}
  ~Folder() {
    if (handle) closedir(handle);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  DIR* handle;
};

// Returns whether no process writes the open file any more.
bool is_left_over(int file) { return flock(file, LOCK_EX | LOCK_NB) == 0; }

// Returns whether this user's writer may have made the open file.
bool is_ours(int file) {
  struct stat about{};
  return fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid();
}

void remove_left_over(const std::string& folder) {
  const Folder listed(folder);
  while (const dirent* entry = listed.handle ? readdir(listed.handle) : nullptr) {
    if (!std::string_view(entry->d_name).starts_with(kPrefix)) continue;
    const std::string path = str(folder, "/", entry->d_name);
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    if (is_ours(file) && is_left_over(file)) unlink(path.c_str());
    close(file);
  }
}

std::string cure_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "Free some there, or choose another folder.";
    case EACCES:
    case EPERM:
    case EROFS:
      return "Choose a folder that this user may write to.";
    case ENOENT:
    case ENOTDIR:
      return "Is the path right?";
    case EFBIG:
      return "Choose a file system, or a limit, that allows files of this size.";
    case ENAMETOOLONG:
      return "Choose a shorter name.";
    case EISDIR:
      return "Give the name of a file.";
    default:
      return "Look at the disk, or choose another folder.";
  }
}

}  // namespace

FileCalls& file_calls() {
  static FileCalls calls{
      .write = ::write, .write_at = ::pwrite, .sync = ::fsync, .rename = ::rename};
  return calls;
}

std::string file_problem(const std::string& what, const std::string& path, int error) {
  return str("cannot ", what, " '", path, "': ", std::strerror(error), ". ", cure_of(error));
}

WholeFile::WholeFile(std::string path, std::string tag)
    : path_(std::move(path)), tag_(std::move(tag)) {
  const size_t slash = path_.rfind('/');
  folder_ = slash == std::string::npos ? "." : path_.substr(0, std::max<size_t>(slash, 1));
  open_temporary();
}

void WholeFile::open_temporary() {
  static std::atomic<uint64_t> count = 0;
  struct stat target{};
  if (lstat(path_.c_str(), &target) == 0 && S_ISDIR(target.st_mode)) {
    errno = EISDIR;
    fail("write");
  }
  remove_left_over(folder_);
  // Until this writer has the lock, another writer may remove the file as left over.
  for (struct stat held{}; held.st_nlink == 0;) {
    if (file_ >= 0) close(file_);
    temporary_ = str(folder_, "/", kPrefix, getpid(), "-", ++count);
    file_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file_ < 0 && errno == EEXIST) continue;
    if (file_ < 0) fail("write");
    flock(file_, LOCK_EX);
    fstat(file_, &held);
  }
}

void WholeFile::discard() {
  if (file_ < 0) return;
  if (!temporary_.empty()) unlink(temporary_.c_str());
  close(std::exchange(file_, -1));
}

void WholeFile::fail(const char* what) const {
  throw UserError(str("[", tag_, "] ", file_problem(what, path_, errno)));
}

void WholeFile::again_if_interrupted(const std::function<int()>& call) const {
  while (call() != 0) {
    if (errno != EINTR) fail("write");
  }
}

template <typename Call>
void WholeFile::write_all(const void* data, size_t bytes, Call call) {
  const auto* from = static_cast<const char*>(data);
  for (size_t done = 0; done < bytes;) {
    errno = ENOSPC;  // a call that writes nothing sets no errno
    const ssize_t written = call(from + done, bytes - done, static_cast<off_t>(done));
    if (written > 0) {
      done += static_cast<size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      fail("write");
    }
  }
}

void WholeFile::write(const void* data, size_t bytes) {
  meet_fault(FaultPoint::kSave);
  write_all(data, bytes, [this](const char* from, size_t left, off_t) {
    return file_calls().write(file_, from, left);
  });
  size_ += static_cast<int64_t>(bytes);
}

void WholeFile::write_at(int64_t place, const void* data, size_t bytes) {
  meet_fault(FaultPoint::kSave);
  write_all(data, bytes, [this, place](const char* from, size_t left, off_t done) {
    return file_calls().write_at(file_, from, left, place + done);
  });
}

void WholeFile::commit() {
  meet_fault(FaultPoint::kSave);
  again_if_interrupted([this] { return file_calls().sync(file_); });
  meet_fault(FaultPoint::kSave);
  again_if_interrupted([this] { return file_calls().rename(temporary_.c_str(), path_.c_str()); });
  temporary_.clear();
  meet_fault(FaultPoint::kSave);
  sync_folder();
}

// Some file systems cannot sync a folder, and give other guarantees.
void WholeFile::sync_folder() const {
  const int folder = open(folder_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (folder < 0) return;  // the user may search the folder and not read it
  int failed = 0;
  do {
    failed = file_calls().sync(folder) == 0 ? 0 : errno;
  } while (failed == EINTR);
  close(folder);
  if (failed == 0 || failed == EINVAL || failed == ENOTSUP) return;
  errno = failed;
  fail("write");
}

}  // namespace poptorch::support
