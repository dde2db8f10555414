// Safetensors: written tensors can be read; a header that violates the format is refused.
#include "storage/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "error_text.hpp"
#include "scratch.hpp"
#include "support/error.hpp"

namespace poptorch::storage {
namespace {

using ir::DType;
using support::UserError;

std::string whole(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(data, 'd');
}

std::string text_of_reading(const std::string& bytes) {
  return text_of<UserError>([&] { read_safetensors(bytes, "f"); });
}

TEST(Safetensors, GivesWhatWasWritten) {
  const std::vector<TensorPlace> tensors = placed({{"half", {DType::kF16, {3}}},
                                                   {"scalar", {DType::kF32, {}}},
                                                   {"large", {DType::kF32, {4, 8}}},
                                                   {"none", {DType::kI64, {0, 5}}},
                                                   {"flag", {DType::kBool, {1}}},
                                                   {"a \"b\"\n\xff", {DType::kU8, {2}}},
                                                   {"long", {DType::kI64, {3}}}});
  size_t bytes = 0;
  for (const TensorPlace& tensor : tensors) bytes += static_cast<size_t>(tensor.type.bytes());
  const std::string header = safetensors_header(tensors);
  EXPECT_EQ(header.size() % 64, 0u);
  const auto read = read_safetensors(header + std::string(bytes, 'd'), "f");
  ASSERT_EQ(read.size(), tensors.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].type, tensors[i].type) << tensors[i].name;
    EXPECT_EQ(read[i].offset, header.size() + tensors[i].offset) << tensors[i].name;
    const auto element = static_cast<size_t>(ir::size_of(read[i].type.dtype));
    EXPECT_EQ(read[i].offset % element, 0u) << tensors[i].name;
    if (read[i].type.bytes() % 64 == 0) {
      EXPECT_EQ(read[i].offset % 64, 0u) << tensors[i].name;
    }
  }
  EXPECT_TRUE(read_safetensors(safetensors_header({}), "f").empty());
}

TEST(Safetensors, HasNoNameForComplexDoubles) {
  EXPECT_THROW(safetensors_header({{"z", {DType::kC128, {2}}}}), support::UnsupportedError);
}

TEST(Safetensors, TakesMetadata) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(text_of_reading(whole(header, 8)), "no error");
}

// Returns the header of a valid tensor in which `from` is replaced by `to`.
std::string with(const std::string& from, const std::string& to) {
  std::string header = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  header.replace(header.find(from), from.size(), to);
  return header;
}

TEST(Safetensors, RefusesHeadersThatLie) {
  ASSERT_EQ(text_of_reading(whole(with("w", "w"), 24)), "no error");
  const std::pair<const char*, const char*> cases[] = {
      {"[2,3]", "[2,4]"},
      {"[2,3]", "[-2,-3]"},
      {"[2,3]", "[2.0,3]"},
      {"[2,3]", "[\"2\",3]"},
      {"[2,3]", "6"},
      {"[2,3]", "null"},
      {"[2,3]", "[4294967296,4294967296]"},
      {"[2,3]", "[9223372036854775807,2]"},
      {"[2,3]", "[18446744073709551615]"},
      {"[2,3]", "[99999999999999999999999]"},
      {"[2,3]", "[0,9223372036854775807,9223372036854775807]"},
      {"[2,3]", "[4611686018427387904,4,6]"},
      {"F32", "F33"},
      {"F32", "f32"},
      {"\"F32\"", "7"},
      {"F32", "F64"},
      {"[0,24]", "[24,0]"},
      {"[0,24]", "[0,25]"},
      {"[0,24]", "[1,25]"},
      {"[0,24]", "[0,24,24]"},
      {"[0,24]", "[0]"},
      {"[0,24]", "[-24,0]"},
      {"[0,24]", "[9223372036854775784,9223372036854775808]"},
      {"[0,24]", "[18446744073709551600,8]"},
      {"[0,24]", "\"0,24\""},
      {"\"shape\"", "\"shapes\""},
      {"\"dtype\"", "\"type\""},
      {"\"data_offsets\"", "\"offsets\""},
      {R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})", "[]"},
      {"}}", "}"},
      {"{\"w\"", "[\"w\""},
  };
  for (const auto& [from, to] : cases) {
    const std::string text = text_of_reading(whole(with(from, to), 24));
    EXPECT_TRUE(text.starts_with("[file] 'f' is damaged: in its tensors, ")) << to << ": " << text;
  }
}

TEST(Safetensors, RefusesTensorsThatOverlapLeaveGapsOrEndElsewhere) {
  const auto two = [](int a, int b, int c, int d) {
    const auto row = [](int from, int to) {
      return R"({"dtype":"U8","shape":[)" + std::to_string(to - from) + R"(],"data_offsets":[)" +
             std::to_string(from) + "," + std::to_string(to) + "]}";
    };
    return "{\"a\":" + row(a, b) + ",\"b\":" + row(c, d) + "}";
  };
  EXPECT_EQ(text_of_reading(whole(two(0, 4, 4, 8), 8)), "no error");
  EXPECT_EQ(text_of_reading(whole(two(4, 8, 0, 4), 8)), "no error");
  EXPECT_EQ(text_of_reading(whole(two(0, 4, 3, 8), 8)),
            "[file] 'f' is damaged: in its tensors, \"b\" is not at its offset. Write it again.");
  EXPECT_NE(text_of_reading(whole(two(0, 4, 5, 8), 8)), "no error");
  EXPECT_NE(text_of_reading(whole(two(0, 8, 0, 8), 8)), "no error");
  EXPECT_NE(text_of_reading(whole(two(0, 4, 4, 8), 7)), "no error");
  EXPECT_NE(text_of_reading(whole(two(0, 4, 4, 8), 9)), "no error");
}

TEST(Safetensors, RefusesEveryTruncationAndWrongLengths) {
  const std::string good = whole(with("w", "w"), 24);
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_NE(text_of_reading(good.substr(0, size)), "no error") << size;
  }
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, good.size() - 7, uint64_t{1} << 63,
                                ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string bytes = good;
    std::memcpy(bytes.data(), &length, sizeof length);
    EXPECT_NE(text_of_reading(bytes), "no error") << length;
  }
}

TEST(Safetensors, RefusesHostileJson) {
  const std::string texts[] = {std::string(200000, '['),
                               [] {
                                 std::string deep;
                                 for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
                                 return deep;
                               }(),
                               "{\"w\":" + std::string(200000, '['),
                               "{\"\xed\xa0\x80\":{}}",
                               "{\"w\":\"\\ud800\"}",
                               "null",
                               "",
                               "{} {}",
                               "{\"w\":1e999}",
                               std::string("{\0}", 3)};
  for (const std::string& text : texts) {
    EXPECT_NE(text_of_reading(whole(text, 0)), "no error") << text.substr(0, 20);
  }
}

}  // namespace
}  // namespace poptorch::storage
