// Containers: written content can be read, and nothing of a changed file is used.
#include "storage/container.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "error_text.hpp"
#include "scratch.hpp"
#include "support/error.hpp"

namespace poptorch::storage {
namespace {

using support::UserError;

std::string small_file() {
  const Scratch scratch;
  ContainerWriter writer(scratch.path("f"), 3);
  writer.begin("first");
  writer.add("hello ");
  writer.add("world");
  writer.begin("empty");
  writer.begin("sixteen_letters_");
  writer.add(std::string(5000, 'x'));
  writer.commit();
  return content_of(scratch.path("f"));
}

constexpr size_t kHeader = 16 + 3 * 64 + 16;
constexpr size_t kFirst = 256, kThird = 320;  // where these sections begin

std::string refusal(const std::string& bytes) {
  return text_of<UserError>([&] { Container(bytes, "f"); });
}

// Updates the header's digest after a change, as an attacker would.
void mend(std::string& bytes) {
  uint32_t count = 0;
  std::memcpy(&count, bytes.data() + 12, sizeof count);
  const size_t covered = 16 + size_t{count} * 64;
  const Digest digest = digest_of(std::string_view(bytes).substr(0, covered));
  std::memcpy(bytes.data() + covered, &digest, sizeof digest);
}

template <typename T>
std::string patched(size_t place, T value, bool mended = true) {
  std::string bytes = small_file();
  std::memcpy(bytes.data() + place, &value, sizeof value);
  if (mended) mend(bytes);
  return bytes;
}

constexpr size_t offset_of_row(size_t row) { return 16 + 64 * row + 16; }
constexpr size_t length_of_row(size_t row) { return 16 + 64 * row + 24; }

TEST(Container, GivesWhatWasWritten) {
  const std::string bytes = small_file();
  const Container file(bytes, "f");
  EXPECT_EQ(file.sections(), (std::vector<std::string>{"first", "empty", "sixteen_letters_"}));
  EXPECT_EQ(file.read("first"), "hello world");
  EXPECT_EQ(file.read("empty"), "");
  EXPECT_EQ(file.read("sixteen_letters_"), std::string(5000, 'x'));
  EXPECT_EQ(file.read("first"), "hello world");
  EXPECT_TRUE(file.has("first"));
  EXPECT_FALSE(file.has("firs"));
  EXPECT_EQ(bytes.size(), kThird + 5000);
  EXPECT_EQ(
      text_of<UserError>([&] { file.read("second"); }),
      "[file] 'f' has no section 'second': it was written for another purpose. Write it again.");
}

TEST(Container, ReadsFilesAndGivesPagesToWrite) {
  const Scratch scratch;
  put(scratch.path("f"), small_file());
  const Container file(scratch.path("f"));
  const auto pages = file.private_pages("sixteen_letters_");
  EXPECT_EQ(std::memcmp(pages.get(), std::string(5000, 'x').data(), 5000), 0);
  std::memset(pages.get(), 'y', 5000);
  EXPECT_EQ(file.read("sixteen_letters_"), std::string(5000, 'x'));
  EXPECT_TRUE(content_of(scratch.path("f")) == small_file());
  EXPECT_EQ(file.private_pages("empty"), nullptr);
}

TEST(Container, RefusesEveryTruncation) {
  const std::string bytes = small_file();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string text = refusal(bytes.substr(0, size));
    ASSERT_TRUE(text.starts_with("[file] 'f' is ")) << size << ": " << text;
  }
}

TEST(Container, RefusesEveryFlippedBitOfAHeaderAndOfAGap) {
  const std::string bytes = small_file();
  const auto expect_refused = [&](size_t place, int bit) {
    std::string flipped = bytes;
    flipped[place] = static_cast<char>(flipped[place] ^ (1 << bit));
    ASSERT_TRUE(refusal(flipped).starts_with("[file] 'f' ")) << place << " bit " << bit;
  };
  for (size_t place = 0; place < kHeader; ++place) {
    for (int bit = 0; bit < 8; ++bit) expect_refused(place, bit);
  }
  for (size_t place = kHeader; place < kFirst; ++place) expect_refused(place, 3);
  for (size_t place = kFirst + 11; place < kThird; ++place) expect_refused(place, 7);
}

TEST(Container, RefusesADamagedSectionWhenItIsRead) {
  const std::string bytes = small_file();
  for (size_t place = kThird; place < bytes.size(); place += 97) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[place] = static_cast<char>(flipped[place] ^ (1 << bit));
      const Container file(flipped, "f");
      EXPECT_EQ(file.read("first"), "hello world");
      for (int times = 0; times < 2; ++times) {
        EXPECT_EQ(
            text_of<UserError>([&] { file.read("sixteen_letters_"); }),
            "[file] 'f' is damaged: section 'sixteen_letters_' has changed since it was written. "
            "Write it again.");
      }
    }
  }
}

TEST(Container, SaysWhatAFileIsNot) {
  EXPECT_EQ(refusal("PK\x03\x04 and so on"),
            "[file] 'f' is not a PopTorch file. Give the name of one that save() or "
            "compileAndExport() wrote.");
  EXPECT_EQ(refusal(""), refusal("no"));
  EXPECT_EQ(refusal(patched<uint32_t>(8, 7)),
            "[file] 'f' has version 7 of the file format, but this PopTorch reads version 1. "
            "Write it again with this one.");
  EXPECT_EQ(refusal(small_file() + '\0'),
            "[file] 'f' is damaged: there are bytes after its end. Write it again.");
}

// The digests of these headers are valid.
TEST(Container, RefusesPlacesThatLie) {
  constexpr uint64_t kFar = ~uint64_t{0};
  for (const size_t row : {0, 1, 2}) {
    for (const uint64_t place : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{3 * 64},
                                 uint64_t{1} << 40, uint64_t{1} << 63, kFar, kFar - 63}) {
      EXPECT_NE(refusal(patched(offset_of_row(row), place)), "no error") << row << " " << place;
    }
    for (const uint64_t length : {uint64_t{10}, uint64_t{65}, uint64_t{5001}, uint64_t{1} << 40,
                                  uint64_t{1} << 63, kFar, kFar - kFirst, kFar - kThird + 1}) {
      if (row == 0 && length == 10) continue;  // leaves something in the gap: below
      EXPECT_NE(refusal(patched(length_of_row(row), length)), "no error") << row << " " << length;
    }
  }
  EXPECT_EQ(refusal(patched<uint64_t>(length_of_row(0), 10)),
            "[file] 'f' is damaged: there are bytes between its sections. Write it again.");
  for (const uint32_t count : {0u, 1u, 2u, 4u, 16u, 17u, 1u << 20, ~0u}) {
    EXPECT_NE(refusal(patched<uint32_t>(12, count, count <= 16)), "no error") << count;
  }
}

TEST(Container, WritesNothingWithoutAllSections) {
  const Scratch scratch;
  {
    ContainerWriter writer(scratch.path("f"), 2);
    writer.begin("one");
    EXPECT_THROW(writer.commit(), support::InternalError);
  }
  EXPECT_TRUE(scratch.names().empty());
}

TEST(Container, TellsWhatIsNoFile) {
  const Scratch scratch;
  EXPECT_EQ(text_of<UserError>([&] { Container(scratch.path("none")); }),
            "[file] cannot read '" + scratch.path("none") +
                "': No such file or directory. Is the path right?");
  EXPECT_EQ(
      text_of<UserError>([&] { Container(scratch.path()); }),
      "[file] cannot read '" + scratch.path() + "': it is not a file. Give the name of a file.");
  put(scratch.path("empty"), "");
  EXPECT_NE(
      text_of<UserError>([&] { Container(scratch.path("empty")); }).find("is not a PopTorch file"),
      std::string::npos);
}

}  // namespace
}  // namespace poptorch::storage
