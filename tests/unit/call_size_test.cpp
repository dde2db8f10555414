// Graphs that call others twice, which do the same: refused before anything copies them.
#include "transforms/call_size.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "support/error.hpp"

namespace poptorch::transforms {
namespace {

// @g<i> calls @g<i-1> `calls` times.
std::string nested(int depth, int calls, bool used = true) {
  std::string text =
      "graph @g0(%x: f32[2]) -> (f32[2]) {\n  %y = neg(%x) : f32[2]\n  return %y\n}\n";
  for (int i = 1; i <= depth; ++i) {
    text += "graph @g" + std::to_string(i) + "(%x0: f32[2]) -> (f32[2]) {\n";
    for (int k = 0; k < calls; ++k) {
      text += "  %x" + std::to_string(k + 1) + " = call(%x" + std::to_string(k) + ") {graph=@g" +
              std::to_string(i - 1) + "} : f32[2]\n";
    }
    text += "  return %x" + std::to_string(calls) + "\n}\n";
  }
  text += "graph @main(%x: f32[2]) -> (f32[2]) {\n";
  if (used)
    return text + "  %y = call(%x) {graph=@g" + std::to_string(depth) +
           "} : f32[2]\n  return %y\n}\n";
  return text + "  return %x\n}\n";
}

void check(const std::string& text) { check_call_size(*ir::parse(text, ops::registry())); }

TEST(CallSize, RefusesWhatDoublesTooOften) {
  check(nested(10, 2));
  check(nested(15, 2));
  check(nested(60, 2, false));
  check(nested(100, 1));
  try {
    check(nested(60, 2));
    ADD_FAILURE() << "it was accepted";
  } catch (const support::UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("[calls] graph @main has more than a million million ops"),
              std::string::npos);
    EXPECT_NE(text.find("Most are of @g60, which it calls 1 time."), std::string::npos);
  }
  EXPECT_THROW(check(nested(20, 2)), support::UserError);
  EXPECT_THROW(check(nested(5, 30)), support::UserError);
}

}  // namespace
}  // namespace poptorch::transforms
