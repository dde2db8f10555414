// Runs the cases of tests/ir/<stage>/<pass>.ir:
//
//   // case: what holds
//   // run: pass, another pass
//   execution {training=true}
//   graph @main(...) { ... }
//   // expect:
//   graph @main(...) { ... }
//
// A line `// error: part of the message` can replace the expectation. Besides passes, `verify` runs
// the IR's verifier, `print` runs nothing, and `lower` makes a program. Passes of the emulator
// (golden_bind.hpp) may follow `lower`, or run on a case that is a program. Texts of programs,
// plans and codes are compared exactly, modules structurally. POPTORCH_REWRITE_GOLDEN=1 writes the
// result as the expectation.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "compile/pass_runner.hpp"
#include "golden_bind.hpp"
#include "golden_cases.hpp"
#include "golden_files.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "lowering/lower.hpp"
#include "ops/all_ops.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {
namespace {

bool is_program(const Case& one) { return trimmed(one.input).starts_with("program"); }

bool is_lowered(const Case& one) {
  return is_program(one) || std::ranges::find(one.run, "lower") != one.run.end();
}

// Returns the text after the passes of the case.
std::string outcome(const Case& one) {
  if (is_program(one)) {
    program::Program program = program::parse(one.input, ops::registry());
    program::verify(program);
    return bound_outcome(std::move(program), one.run);
  }
  auto module = ir::parse(one.input, ops::registry(), one.file.filename().string());
  compile::PassRunner runner({}, 1);
  for (const std::string& name : one.run) {
    if (name == "verify") {
      ir::verify(*module);
    } else if (name == "lower") {
      const auto after = one.run.begin() + (&name - one.run.data()) + 1;
      return bound_outcome(lowering::lower(*module), {after, one.run.end()});
    } else if (name != "print") {
      runner.run(name, *module);
    }
  }
  return ir::print(*module);
}

void rewrite(const Case& changed, const std::string& text) {
  std::vector<Case> cases = read_cases(changed.file);
  std::ifstream in(changed.file);
  std::string head;
  for (std::string line, rest; std::getline(in, line) && !take_mark(line, "case", rest);) {
    head += line + "\n";
  }
  cases[static_cast<size_t>(changed.index)].expected = text;
  std::ofstream out(changed.file);
  out << head;
  for (const Case& one : cases) {
    out << "// case: " << one.title << "\n";
    out << "// run: " << support::join(one.run, ", ") << "\n" << trimmed(one.input) << "\n";
    if (one.error.empty()) {
      out << "// expect:\n" << trimmed(one.expected) << "\n";
    } else {
      out << "// error: " << one.error << "\n";
    }
    if (&one != &cases.back()) out << "\n";
  }
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, ComesOutAsExpected) {
  const Case& one = GetParam();
  SCOPED_TRACE(one.file.string() + ": " + one.title);
  ASSERT_FALSE(one.run.empty()) << "the case has no `// run:` line";
  if (!one.error.empty()) {
    try {
      const std::string text = outcome(one);
      FAIL() << "accepted, giving\n" << text;
    } catch (const support::Error& error) {
      EXPECT_NE(std::string(error.what()).find(one.error), std::string::npos)
          << "the message is: " << error.what();
    }
    return;
  }
  const std::string text = outcome(one);
  std::string why;
  bool equal = false;
  if (is_lowered(one)) {
    equal = trimmed(text) == trimmed(one.expected);
    why = "the text differs";
  } else if (!trimmed(one.expected).empty()) {
    auto expected = ir::parse(one.expected, ops::registry(), "expected");
    equal = ir::structurally_equal(*ir::parse(text, ops::registry(), "outcome"), *expected, &why);
  }
  if (equal) return;
  if (golden::rewriting()) return rewrite(one, text);
  FAIL() << why << "; it came out as\n" << text;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.file.parent_path().filename().string() + "_" +
                     info.param.file.stem().string() + "_" + std::to_string(info.param.index);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ir, Golden, testing::ValuesIn(all_cases()), case_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Golden);

}  // namespace
}  // namespace poptorch
