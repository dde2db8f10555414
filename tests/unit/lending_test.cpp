// What is lent can be read where it is, and nothing else.
#include "emulator/transport/lending.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "emulator/host/memory.hpp"
#include "error_text.hpp"
#include "gtest/gtest.h"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

TEST(Lending, LendsWhatIsThereAndWhatComes) {
  const Memory memory(5 * Memory::kPage, "a test", true);
  Lending own, other;
  std::memcpy(memory.data() + 100, "before", 7);
  own.add(memory.data() + 3 * Memory::kPage, 10);
  own.add(memory.data() + 100, 10);
  own.add(memory.data() + 50, 2 * Memory::kPage);
  own.settle();
  EXPECT_EQ(own.offer().bytes, 5 * Memory::kPage);  // of two places, and the key's
  other.note(0, own.offer(), "instance 0");
  const int64_t first = own.offset_of(memory.data() + 100);
  const int64_t last = own.offset_of(memory.data() + 3 * Memory::kPage);
  EXPECT_STREQ(reinterpret_cast<const char*>(other.at(0, first, 7)), "before");
  std::memcpy(memory.data() + 3 * Memory::kPage, "behind", 7);
  EXPECT_STREQ(reinterpret_cast<const char*>(other.at(0, last, 7)), "behind");
  EXPECT_THROW((void)own.offset_of(memory.data() + 4 * Memory::kPage), support::InternalError);
}

TEST(Lending, RefusesWhatIsNotThere) {
  const Memory memory(Memory::kPage, "a test", true);
  Lending own, other;
  own.add(memory.data(), 1);
  own.settle();
  other.note(1, own.offer(), "instance 1");
  for (const auto& [offset, bytes] : {std::pair<int64_t, int64_t>{-1, 1},
                                      {0, -1},
                                      {8192, 1},
                                      {1, 8192},
                                      {8193, 0},
                                      {1, INT64_MAX},
                                      {INT64_MAX, 1}}) {
    const auto read = [&] { (void)other.at(1, offset, bytes); };
    EXPECT_NE(text_of<support::UserError>(read).find("instance 1 names"), std::string::npos)
        << offset << " " << bytes;
  }
  EXPECT_NE(text_of<support::UserError>([&] { (void)other.at(2, 0, 1); }).find("instance 2 names"),
            std::string::npos);
  EXPECT_EQ(other.at(1, 8191, 1)[0], std::byte{0});
}

// Numbers of files are used again.
TEST(Lending, ReadsNoOtherFile) {
  const Memory memory(Memory::kPage, "a test", true);
  Lending own, other;
  own.add(memory.data(), 1);
  own.settle();
  Lending::Offer key = own.offer(), bytes = own.offer(), file = own.offer();
  key.key ^= 1;
  bytes.bytes += 1;
  file.file = 1 << 20;
  other.note(0, key, "instance 0");
  other.note(1, bytes, "instance 1");
  other.note(2, file, "instance 2");
  other.note(3, own.offer(), "instance 3");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(other.at(i, 0, 1), nullptr) << i;
  EXPECT_NE(other.at(3, 0, 1), nullptr);
}

// Reading pages that another process has taken from a file ends a process.
TEST(Lending, ReadsNoFileThatMayShrink) {
  const Memory memory(Memory::kPage, "a test", true);
  Lending own, other;
  own.add(memory.data(), 1);
  own.settle();
  EXPECT_NE(ftruncate(static_cast<int>(own.offer().file), 0), 0);
  Lending::Offer offer = own.offer();
  offer.file = memfd_create("without seals", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(static_cast<int>(offer.file), offer.bytes), 0);
  ASSERT_EQ(pwrite(static_cast<int>(offer.file), &offer.key, sizeof offer.key, 0),
            static_cast<ssize_t>(sizeof offer.key));
  other.note(0, offer, "instance 0");
  EXPECT_EQ(other.at(0, 0, 1), nullptr);
  close(static_cast<int>(offer.file));
}

}  // namespace
}  // namespace poptorch::emulator
