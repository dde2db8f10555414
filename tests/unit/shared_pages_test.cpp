// Another process can read shared pages in place, and nothing else.
#include "emulator/transport/shared_pages.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "child_process.hpp"
#include "emulator/host/memory.hpp"
#include "emulator/transport/peer_process.hpp"
#include "error_text.hpp"
#include "gtest/gtest.h"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

TEST(SharedPages, SharesWhatIsThereAndWhatComes) {
  const Memory memory(5 * Memory::kPage, "a test", true);
  SharedPages own, other;
  std::memcpy(memory.data() + 100, "before", 7);
  own.add(memory.data() + 3 * Memory::kPage, 10);
  own.add(memory.data() + 100, 10);
  own.add(memory.data() + 50, 2 * Memory::kPage);
  own.settle();
  EXPECT_EQ(own.handle().bytes, 5 * Memory::kPage);  // of two places, and the key's
  other.note(0, own.handle(), "instance 0");
  const int64_t first = own.offset_of(memory.data() + 100);
  const int64_t last = own.offset_of(memory.data() + 3 * Memory::kPage);
  EXPECT_STREQ(reinterpret_cast<const char*>(other.at(0, first, 7)), "before");
  std::memcpy(memory.data() + 3 * Memory::kPage, "behind", 7);
  EXPECT_STREQ(reinterpret_cast<const char*>(other.at(0, last, 7)), "behind");
  EXPECT_THROW((void)own.offset_of(memory.data() + 4 * Memory::kPage), support::InternalError);
}

TEST(SharedPages, RefusesWhatIsNotThere) {
  const Memory memory(Memory::kPage, "a test", true);
  SharedPages own, other;
  own.add(memory.data(), 1);
  own.settle();
  other.note(1, own.handle(), "instance 1");
  for (const auto& [offset, bytes] : {std::pair<int64_t, int64_t>{-1, 1},
                                      {0, -1},
                                      {8192, 1},
                                      {1, 8192},
                                      {8193, 0},
                                      {1, INT64_MAX},
                                      {INT64_MAX, 1}}) {
    const auto read = [&] { (void)other.at(1, offset, bytes); };
    EXPECT_NE(text_of<support::UserError>(read).find("instance 1 refers to"), std::string::npos)
        << offset << " " << bytes;
  }
  EXPECT_NE(
      text_of<support::UserError>([&] { (void)other.at(2, 0, 1); }).find("instance 2 refers to"),
      std::string::npos);
  EXPECT_EQ(other.at(1, 8191, 1)[0], std::byte{0});
}

// File descriptors are reused.
TEST(SharedPages, ReadsNoOtherFile) {
  const Memory memory(Memory::kPage, "a test", true);
  SharedPages own, other;
  own.add(memory.data(), 1);
  own.settle();
  SharedPages::Handle key = own.handle(), bytes = own.handle(), file = own.handle();
  key.key ^= 1;
  bytes.bytes += 1;
  file.file = 1 << 20;
  other.note(0, key, "instance 0");
  other.note(1, bytes, "instance 1");
  other.note(2, file, "instance 2");
  other.note(3, own.handle(), "instance 3");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(other.at(i, 0, 1), nullptr) << i;
  EXPECT_NE(other.at(3, 0, 1), nullptr);
}

// Reading pages that another process has mapping from a file ends a process.
TEST(SharedPages, ReadsNoFileThatMayShrink) {
  const Memory memory(Memory::kPage, "a test", true);
  SharedPages own, other;
  own.add(memory.data(), 1);
  own.settle();
  EXPECT_NE(ftruncate(static_cast<int>(own.handle().file), 0), 0);
  SharedPages::Handle handle = own.handle();
  handle.file = memfd_create("without seals", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(static_cast<int>(handle.file), handle.bytes), 0);
  ASSERT_EQ(pwrite(static_cast<int>(handle.file), &handle.key, sizeof handle.key, 0),
            static_cast<ssize_t>(sizeof handle.key));
  other.note(0, handle, "instance 0");
  EXPECT_EQ(other.at(0, 0, 1), nullptr);
  close(static_cast<int>(handle.file));
}

// Other users cannot read the memory that a process shares, nor can processes that may not trace
// it.
TEST(SharedPages, NamesThePermissionThatIsMissing) {
  const Memory memory(Memory::kPage, "a test", true);
  SharedPages own;
  own.add(memory.data(), 1);
  own.settle();
  const bool is_root = geteuid() == 0;
  constexpr uid_t kNobody = 65534;
  if (!is_root) {
    ASSERT_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
  }
  Child child = start([&]() -> std::string {
    if (is_root && setresuid(kNobody, kNobody, kNobody) != 0) return "no other user";
    SharedPages other;
    other.note(1, own.handle(), "instance 1");
    return other.at(1, 0, 1) ? "it was read" : "it is gone";
  });
  const std::string text = child.end();
  if (!is_root) prctl(PR_SET_DUMPABLE, 1);
  if (text == "no other user") GTEST_SKIP() << "this process cannot become another user's";
  for (const std::string& part :
       {std::string(
            "the memory that instance 1 shares cannot be opened: this process may not trace"),
        "process " + std::to_string(getpid()) + " (ptrace access mode PTRACE_MODE_READ)",
        std::string("belongs to root"), std::string("Start all instances as one user")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

TEST(PeerProcess, TellsAFileThatIsGoneFromOneThatMayNotBeOpened) {
  Child child = start([] { return std::string(); });
  child.end();
  EXPECT_EQ(why_not_opened(child.process, ENOENT), "");
  EXPECT_EQ(why_not_opened(getpid(), ENOENT), "");
  EXPECT_NE(why_not_opened(getpid(), EACCES).find("both are of one user"), std::string::npos);
  EXPECT_EQ(why_not_opened(getpid(), EMFILE), "Too many open files");
}

}  // namespace
}  // namespace poptorch::emulator
