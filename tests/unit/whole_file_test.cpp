// Files that exist completely or not at all after any failure, and locks of processes that have
// ended.
#include "support/whole_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "error_text.hpp"
#include "scratch.hpp"
#include "support/error.hpp"
#include "support/file_lock.hpp"
#include "support/watch.hpp"

namespace poptorch::support {
namespace {

// Makes call number `at` fail with `error`. With error 0, the call writes only half of its bytes.
struct Fault {
  int at = -1, error = 0;
  int calls = 0;
};
Fault fault;

bool is_due() { return fault.calls++ == fault.at; }

ssize_t failing_write(int file, const void* data, size_t bytes) {
  if (!is_due()) return ::write(file, data, bytes);
  if (fault.error == 0) return ::write(file, data, (bytes + 1) / 2);
  errno = fault.error;
  return -1;
}
ssize_t failing_write_at(int file, const void* data, size_t bytes, off_t place) {
  if (!is_due()) return ::pwrite(file, data, bytes, place);
  if (fault.error == 0) return ::pwrite(file, data, (bytes + 1) / 2, place);
  errno = fault.error;
  return -1;
}
int failing_sync(int file) {
  if (!is_due() || fault.error == 0) return ::fsync(file);
  errno = fault.error;
  return -1;
}
int failing_rename(const char* from, const char* to) {
  if (!is_due() || fault.error == 0) return ::rename(from, to);
  errno = fault.error;
  return -1;
}

class Faults {
 public:
  Faults(int at, int error) : before_(file_calls()) {
    fault = {at, error, 0};
    file_calls() = {failing_write, failing_write_at, failing_sync, failing_rename};
  }
  ~Faults() { file_calls() = before_; }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

 private:
  FileCalls before_;
};

const std::string kOld = "the old one", kNew = std::string(100, 'n') + "head" + "tail";

void write_new(const std::string& path) {
  WholeFile file(path);
  file.write(std::string(100, 'n').data(), 100);
  file.write("....", 4);
  file.write("tail", 4);
  file.write_at(100, "head", 4);
  file.commit();
}

constexpr int kCalls = 7;  // of write_new(): four writes, sync, rename, sync of the folder

TEST(WholeFile, IsTheOldOrTheNewWhateverFails) {
  for (const int error : {0, EINTR, ENOSPC, EIO, EDQUOT, EACCES, EROFS}) {
    for (int at = 0; at <= kCalls; ++at) {
      const Scratch scratch;
      const std::string path = scratch.path("f");
      put(path, kOld);
      std::string text;
      {
        const Faults faults(at, error);
        text = text_of<UserError>([&] { write_new(path); });
        EXPECT_GE(fault.calls, std::min(at, kCalls)) << at;
      }
      const bool fails = error != 0 && error != EINTR && at < kCalls;
      // When only the folder cannot be synced, the new file is there.
      EXPECT_EQ(content_of(path), fails && at < kCalls - 1 ? kOld : kNew)
          << "call " << at << " gives " << error;
      EXPECT_EQ(scratch.names(), std::vector<std::string>{"f"}) << at << " " << error;
      const std::string begin = "[file] cannot write '" + path + "': " + std::strerror(error) + ".";
      EXPECT_EQ(text.substr(0, begin.size()), fails ? begin : "no error");
    }
  }
}

TEST(WholeFile, AWriteOfNothingIsAFullDisk) {
  const Scratch scratch;
  const FileCalls before = file_calls();
  file_calls().write = [](int, const void*, size_t) -> ssize_t { return 0; };
  EXPECT_EQ(text_of<UserError>([&] { write_new(scratch.path("f")); }),
            "[file] cannot write '" + scratch.path("f") +
                "': No space left on device. Free some there, or choose another folder.");
  file_calls() = before;
  EXPECT_TRUE(scratch.names().empty());
}

TEST(WholeFile, IsItsOwnersAlone) {
  const Scratch scratch;
  const mode_t before = umask(0);
  write_new(scratch.path("f"));
  umask(before);
  struct stat about{};
  ASSERT_EQ(stat(scratch.path("f").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(content_of(scratch.path("f")), kNew);
}

TEST(WholeFile, TellsWhereNothingCanBe) {
  const Scratch scratch;
  EXPECT_EQ(text_of<UserError>([&] { write_new(scratch.path("no/f")); }),
            "[file] cannot write '" + scratch.path("no/f") +
                "': No such file or directory. Is the path right?");
  std::filesystem::create_directory(scratch.path("folder"));
  EXPECT_EQ(text_of<UserError>([&] { write_new(scratch.path("folder")); }),
            "[file] cannot write '" + scratch.path("folder") +
                "': Is a directory. Give the name of a file.");
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"folder"});
}

// Runs `work` in a separate process, which ends without clean-up.
template <typename Work>
pid_t in_child(Work work) {
  const pid_t child = fork();
  if (child != 0) return child;
  work();
  _exit(0);
}

int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(WholeFile, TakesAwayWhatDeadWritersLeftAndNothingElse) {
  const Scratch scratch;
  const std::string path = scratch.path("f");
  const pid_t child = in_child([&] {
    auto* file = new WholeFile(path);
    file->write("half", 4);
    kill(getpid(), SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  ASSERT_EQ(scratch.names().size(), 1u);
  EXPECT_TRUE(scratch.names()[0].starts_with(".poptorch-unfinished-"));
  put(scratch.path(".poptorch-unfinished-1-1"), "of another file");
  std::filesystem::create_symlink(path, scratch.path(".poptorch-unfinished-link"));
  WholeFile living(path);
  const std::vector<std::string> during = scratch.names();
  ASSERT_EQ(during.size(), 2u);
  write_new(path);  // while the other writer continues
  EXPECT_EQ(scratch.names().size(), 3u);
  living.write("last", 4);
  living.commit();
  EXPECT_EQ(content_of(path), "last");
  EXPECT_EQ(scratch.names(), (std::vector<std::string>{".poptorch-unfinished-link", "f"}));
}

TEST(WholeFile, ManyWritersAtOnceLeaveOneWhole) {
  const Scratch scratch;
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      const std::string text(10000, static_cast<char>('a' + i));
      for (int turn = 0; turn < 25; ++turn) {
        WholeFile file(scratch.path("f"));
        file.write(text.data(), text.size());
        file.commit();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string found = content_of(scratch.path("f"));
  EXPECT_EQ(found, std::string(10000, found.at(0)));
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"f"});
}

int number_in(const std::string& path) {
  const std::string text = content_of(path);
  return text.empty() ? 0 : std::stoi(text);
}

// Increments a counter, which only one process may do at a time.
void count_up(const Scratch& scratch) {
  const FileLock lock(scratch.path("lock"));
  const int number = number_in(scratch.path("n"));
  std::this_thread::yield();
  put(scratch.path("n"), std::to_string(number + 1));
}

TEST(FileLock, LetsOneIn) {
  const Scratch scratch;
  std::vector<std::thread> threads;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(in_child([&] {
      for (int turn = 0; turn < 20; ++turn) count_up(scratch);
    }));
  }
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) count_up(scratch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(number_in(scratch.path("n")), 160);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"n"});
}

TEST(FileLock, ComesBackFromTheDead) {
  const Scratch scratch;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = in_child([&] {
    const FileLock lock(scratch.path("lock"));
    if (write(ready[1], "x", 1) == 1) pause();
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  {
    const Watch watch([] { return true; }, Watch::kEveryTime);
    EXPECT_THROW(FileLock(scratch.path("lock")), Interrupted);
  }
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"lock"});
  {
    const auto kill_and_wait = [child] { return kill(child, SIGKILL) != 0; };
    const Watch watch(kill_and_wait, Watch::kEveryTime);  // asked while it waits
    const FileLock lock(scratch.path("lock"));
  }
  status_of(child);
  EXPECT_TRUE(scratch.names().empty());
  close(ready[0]);
  close(ready[1]);
}

// A process that the holder forked, for example a data loader, has the open file as well.
TEST(FileLock, IsNotHeldByWhoWasForkedUnderIt) {
  const Scratch scratch;
  pid_t child = 0;
  std::thread waiting;
  std::atomic<bool> is_waiting = false;
  {
    const FileLock lock(scratch.path("lock"));
    child = in_child([] { pause(); });
    waiting = std::thread([&] {
      const auto note = [&] {
        is_waiting = true;
        is_waiting.notify_one();
        return false;
      };
      const Watch watch(note, Watch::kEveryTime);
      const FileLock next(scratch.path("lock"));
    });
    is_waiting.wait(false);
  }
  waiting.join();
  kill(child, SIGKILL);
  status_of(child);
  EXPECT_TRUE(scratch.names().empty());
}

TEST(FileLock, TellsWhereItCannotBe) {
  const Scratch scratch;
  EXPECT_EQ(text_of<UserError>([&] { FileLock(scratch.path("no/lock")); }),
            "[file] cannot lock '" + scratch.path("no/lock") +
                "': No such file or directory. Is the path right?");
  ASSERT_EQ(symlink("/etc/passwd", scratch.path("link").c_str()), 0);
  EXPECT_THROW(FileLock(scratch.path("link")), UserError);
}

}  // namespace
}  // namespace poptorch::support
