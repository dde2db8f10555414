// Texts of any size and shape: refused by a stated limit or compiled, never fatal.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/builder.hpp"
#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "ops/all_ops.hpp"
#include "program/program.hpp"
#include "sample.hpp"
#include "session/session.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {
namespace {

using support::str;

// Returns `levels` graphs of f32[2], each of which calls the previous one `calls` times, then
// @main.
std::string nested(int levels, int calls, const std::string& op, const std::string& attrs = "") {
  std::string text =
      "graph @g0(%a: f32[2]) -> (f32[2]) {\n  %b = relu(%a) : f32[2]\n  return %b\n}\n";
  for (int i = 1; i <= levels; ++i) {
    text += str("graph @g", i, "(%v0: f32[2]) -> (f32[2]) {\n");
    for (int k = 0; k < calls; ++k) {
      text += str("  %v", k + 1, " = ", op, "(%v", k, ") {graph=@g", i - 1, attrs, "} : f32[2]\n");
    }
    text += str("  return %v", calls, "\n}\n");
  }
  return text + str("graph @main(%x: f32[2]) -> (f32[2]) {\n  %y = call(%x) {graph=@g", levels,
                    "} : f32[2]\n  return %y\n}\n");
}

std::string refusal(const std::string& text) {
  try {
    ir::parse(text, ops::registry());
  } catch (const support::UserError& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const std::string& text, const std::string& reason) {
  const std::string got = refusal(text);
  EXPECT_NE(got.find(reason), std::string::npos) << "refused by: " << got;
  EXPECT_NE(got.find("[parse] text:"), std::string::npos) << got;
}

// Returns the number of ops after the pass that leaves the most.
int64_t most_ops_of(const std::string& text) {
  const auto model = session::compile(ir::parse(text, ops::registry()),
                                      {.memory_limit = account::MemoryLimit::kOff});
  int64_t most = 0;
  for (const compile::PassRecord& pass : model->compile_record().passes) {
    most = std::max(most, pass.ops_after);
  }
  return most;
}

TEST(Limits, CallsThatDoubleAreRefused) {
  for (const char* op : {"call", "repeat"}) {
    const std::string attrs = op == std::string("repeat") ? ", count=1" : "";
    expect_refused(nested(60, 2, op, attrs), "but 1048576 are the limit");
    expect_refused(nested(200, 8, op, attrs), "but 1048576 are the limit");
  }
}

TEST(Limits, CallsThatDoubleAFewTimesCompile) {
  EXPECT_GE(most_ops_of(nested(12, 2, "call")), 1 << 12);
  EXPECT_GE(most_ops_of(nested(8, 2, "repeat", ", count=2")), 1 << 8);
}

TEST(Limits, LoopsThatNoTimeIsEnoughForAreRefused) {
  expect_refused(nested(3, 1, "repeat", ", count=2147483647"), "with the rounds of its repeats");
}

TEST(Limits, GraphsNestAsDeepAsIsSaid) {
  EXPECT_EQ(refusal(nested(ir::kMaxNesting - 2, 1, "call")), "");
  expect_refused(nested(ir::kMaxNesting, 1, "call"), "deep, but 256 is the limit");
  expect_refused(nested(20000, 1, "call"), "deep, but 256 is the limit");
}

TEST(Limits, BlocksOfProgramsNestAsDeepAsIsSaid) {
  auto text = [](int depth) {
    std::string out = "program\nipu 0 {\n";
    for (int i = 0; i < depth; ++i) out += "loop(1) {\n";
    out += std::string(static_cast<size_t>(depth), '}');
    return out + "\n}\n";
  };
  EXPECT_NO_THROW(program::verify(program::parse(text(255), ops::registry())));
  for (int depth : {256, 100000}) {
    EXPECT_THROW(program::parse(text(depth), ops::registry()), support::UserError);
  }
}

// A time that grows with the square of a length would exceed every time limit of a test.
TEST(Limits, LongTextsOfOneKindAreRefused) {
  Sample sample(4);
  const std::string many(1 << 20, 'a');
  const std::string parts[] = {many,
                               "%" + many,
                               "\"" + many + "\"",
                               std::string(1 << 20, '('),
                               std::string(1 << 20, '\n'),
                               "graph @main(%x: f32[" + many + "]) -> () { return }",
                               "graph @main() -> () { " + many + "() return }",
                               "state \"" + many + "\" : f32[]"};
  for (const std::string& text : parts) {
    if (!sample.takes()) continue;
    refusal(text);
    EXPECT_THROW(program::parse(text, ops::registry()), support::UserError);
  }
}

TEST(Limits, ErrorsAreTextWhateverTheBytes) {
  const std::string texts[] = {"\xff",
                               "state \"\xed\xa0\x80\" : f32[]",
                               "é",
                               "graph @main(%é: f32[]) -> () { return }",
                               "graph @main() -> () { " + std::string(100, '\xc3') + "() }",
                               std::string("state \"a\0b\" : g32[]", 20),
                               "// \x80\nstate"};
  for (const std::string& text : texts) {
    const std::string got = refusal(text);
    EXPECT_NE(got.find("[parse] text:"), std::string::npos) << got;
    EXPECT_EQ(support::find_non_utf8(got), std::string::npos) << got;
  }
  EXPECT_NE(refusal("a\n b\xffg").find("text:2:3: the text is not UTF-8"), std::string::npos);
}

TEST(Limits, NamesOfAnyTextPrintAndParseBack) {
  ir::Module module(ops::registry());
  for (const char* name : {"f.<locals>.g", "größe", "a b", "1", "\"", "\\", "\n\x01", "main"}) {
    ir::Graph& graph = module.add_graph(name);
    graph.add_output(graph.add_input({ir::DType::kF32, {}}, name));
    module.add_state({.name = name, .type = {ir::DType::kF32, {}}});
  }
  const std::string text = ir::print(module);
  const auto again = ir::parse(text, ops::registry());
  std::string why;
  EXPECT_TRUE(ir::structurally_equal(module, *again, &why)) << why;
  EXPECT_EQ(ir::print(*again), text);
  EXPECT_THROW(module.add_graph("\xed\xa0\x80"), support::UserError);
  EXPECT_THROW(module.add_state({.name = "\xff", .type = {}}), support::UserError);
}

TEST(Limits, LiteralsOfEveryBitPatternPrintAndParseBack) {
  for (const ir::DType dtype : {ir::DType::kF16, ir::DType::kBF16, ir::DType::kF32, ir::DType::kF64,
                                ir::DType::kC64, ir::DType::kU64, ir::DType::kI8}) {
    ir::Type type{dtype, {64}};
    std::vector<std::byte> data(static_cast<size_t>(type.bytes()));
    for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i % 3 == 0 ? 0xff : i * 37);
    ir::Module module(ops::registry());
    ir::Builder builder(module.add_graph("main"));
    builder.graph().add_output(builder.constant(ir::Literal(type, data)));
    const auto again = ir::parse(ir::print(module), ops::registry());
    EXPECT_TRUE(ir::structurally_equal(module, *again)) << ir::print(module);
  }
}

TEST(Limits, OptionsThatReplicasCannotHaveAreRefused) {
  auto error = [](const char* attrs, int64_t replicas) -> std::string {
    const std::string text = str("state \"w\" : f32[2] {", attrs,
                                 "}\ngraph @main() -> (f32[2]) {\n  %w = variable() "
                                 "{name=\"w\"} : f32[2]\n  return %w\n}\n");
    try {
      auto module = ir::parse(text, ops::registry());
      module->execution().replication_factor = replicas;
      session::compile(std::move(module), {.threads = 1});
    } catch (const support::UserError& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_EQ(error("group_size=0", 4), "");
  EXPECT_EQ(error("group_size=2, group_stride=2", 4), "");
  EXPECT_NE(error("group_size=3", 4).find("have 3 replicas with stride 1, but there are 4"),
            std::string::npos);
  EXPECT_NE(error("group_size=2", 1).find("have 2 replicas with stride 1, but there are 1"),
            std::string::npos);
  EXPECT_NE(error("group_size=2, group_stride=4", 4).find("have 2 replicas with stride 4"),
            std::string::npos);
  EXPECT_NE(error("", int64_t{1} << 32).find("at most 32768"), std::string::npos);
}

}  // namespace
}  // namespace poptorch
