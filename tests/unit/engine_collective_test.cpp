// The places where collectives begin: after their operands are computed, in memory that nothing
// else uses at that time.
#include <sstream>

#include "engine_testing.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

// Returns the steps that begin or end a collective, or run one of the named ops.
std::vector<std::string> steps(const std::string& text, const std::vector<std::string>& named) {
  const program::Program program = lowered(text, {.replication_factor = 2});
  std::istringstream lines(Engine(program, ops::registry(), {.begin_ahead = true}).text());
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("begin ") != std::string::npos) found.push_back("begin");
    if (line.find("= all_reduce") != std::string::npos) found.push_back("end");
    for (const std::string& op : named) {
      if (line.find(op) != std::string::npos) found.push_back(op);
    }
  }
  return found;
}

using Steps = std::vector<std::string>;

TEST(EngineCollective, BeginsOnceItsOperandIsThere) {
  EXPECT_EQ(steps(R"(
graph @main(%x: f32[4,4]) -> (f32[4,4], f32[4,4]) {
  %a = matmul(%x, %x) : f32[4,4]
  %b = linear(%a, %a) : f32[4,4]
  %p = all_reduce(%a) : f32[4,4]
  %q = all_reduce(%b) : f32[4,4]
  return %p, %q
})",
                  {"matmul(", "linear("}),
            (Steps{"matmul(", "begin", "linear(", "begin", "end", "end"}));
}

TEST(EngineCollective, DoesNotBeginBeforeItsOperandIsWrittenForTheLastTime) {
  EXPECT_EQ(steps(R"(
state "w" : f32[4,4]
graph @main(%x: f32[4,4]) -> (f32[4,4], f32[4,4]) {
  %w = variable() {name="w"} : f32[4,4]
  %a = matmul(%x, %w) : f32[4,4]
  assign(%w, %a)
  %b = linear(%a, %a) : f32[4,4]
  %p = all_reduce(%w) : f32[4,4]
  return %p, %b
})",
                  {"matmul(", "assign", "linear("}),
            (Steps{"matmul(", "assign", "begin", "linear(", "end"}));
}

// 12 MiB each: two of them can be in progress at a time.
TEST(EngineCollective, IsAheadOnlySoFarThatItsResultsHaveRoom) {
  std::string text = "graph @main(%x: f32[1]) -> (f32[]) {\n";
  for (int i = 0; i < 4; ++i) {
    text += str("  %a", i, " = broadcast_to(%x) {shape=[", 3 << 20, "]} : f32[", 3 << 20, "]\n");
  }
  for (int i = 0; i < 4; ++i) text += str("  %p", i, " = all_reduce(%a", i, ") : f32[3145728]\n");
  for (int i = 0; i < 4; ++i) text += str("  %s", i, " = sum(%p", i, ") {axes=[0]} : f32[]\n");
  text +=
      "  %t = add(%s0, %s1) : f32[]\n  %u = add(%t, %s2) : f32[]\n  %v = add(%u, %s3) : f32[]\n";
  text += "  return %v\n}\n";
  EXPECT_EQ(steps(text, {}),
            (Steps{"begin", "begin", "end", "begin", "end", "begin", "end", "end"}));
}

}  // namespace
}  // namespace poptorch::emulator
