// str() writes every value as std::ostream does.
#include "support/strings.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "ir/type.hpp"
#include "support/symbol.hpp"

namespace poptorch {
namespace {

using support::str;

template <typename T>
std::string streamed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

template <typename... T>
void expect_streamed(const T&... values) {
  const std::vector<std::string> texts = {str(values)...}, expected = {streamed(values)...};
  EXPECT_EQ(texts, expected);
}

TEST(Strings, ConcatenationWritesValuesAsStreamsDo) {
  expect_streamed(true, false, 'a', static_cast<signed char>('b'), static_cast<unsigned char>('c'));
  expect_streamed(-1, 7u, int16_t{-300}, std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(), std::numeric_limits<uint64_t>::max());
  expect_streamed(0.0, -0.0, 0.1, 1.0 / 3, 1e5, 1234567.0, 1e-5, 1e300, -2.5e-310, 3.0f, 0.1f);
  expect_streamed(std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                  std::numeric_limits<double>::quiet_NaN());
  expect_streamed("literal", std::string("a\0b", 3), std::string_view("view"),
                  support::Symbol("symbol"), ir::DType::kF32, ir::Type{ir::DType::kI64, {2, 3}});
  char changing[] = "changing";
  expect_streamed(static_cast<char*>(changing));
}

TEST(Strings, ConcatenationKeepsTheOrderOfItsArguments) {
  EXPECT_EQ(str(), "");
  EXPECT_EQ(str("a", 1, support::Symbol("b"), 2.5, ir::Type{ir::DType::kF16, {}}, 'c'),
            "a1b2.5f16[]c");
}

TEST(Strings, JoinSeparatesItems) {
  EXPECT_EQ(support::join(std::vector<int>{}, ", "), "");
  EXPECT_EQ(support::join(std::vector<bool>{true, false}, "/"), "1/0");
  EXPECT_EQ(support::join(std::vector<support::Symbol>{"a", "b", "c"}, ", "), "a, b, c");
}

}  // namespace
}  // namespace poptorch
