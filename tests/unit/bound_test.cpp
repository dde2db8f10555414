// The text of a bound program: a printed text can be parsed, binds the same kernels and gives
// bit-identical results. Also the faults that the verifier refuses.
#include <cstdlib>
#include <iostream>

#include "compile/pass_runner.hpp"
#include "emulator/bind/bind.hpp"
#include "emulator/bound/text.hpp"
#include "engine_testing.hpp"
#include "golden_cases.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

std::string read_program(const std::string& name) {
  std::ifstream in(std::string(POPTORCH_TESTS_DIR "/ir/programs/") + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the programs of all golden tests, and those that are written by hand.
std::vector<std::pair<std::string, program::Program>> all_programs() {
  std::vector<std::pair<std::string, program::Program>> programs;
  for (const Case& one : all_cases()) {
    const auto lower = std::find(one.run.begin(), one.run.end(), "lower");
    if (!one.error.empty() || lower == one.run.end()) continue;
    auto module = ir::parse(one.input, ops::registry());
    compile::PassRunner runner({}, 1);
    std::for_each(one.run.begin(), lower, [&](const auto& name) { runner.run(name, *module); });
    programs.emplace_back(one.title, lowering::lower(*module));
  }
  for (const char* name : {"phased", "pipelined_training", "recomputed_training", "replicas"}) {
    const std::string file = std::string(name) + ".program";
    programs.emplace_back(name, program::parse(read_program(file), ops::registry()));
  }
  for (const char* name : {"training.ir", "adam_by_reference.ir"}) {
    programs.emplace_back(name, lowered(read_program(name), {.gradient_accumulation = 2}));
  }
  return programs;
}

std::vector<EngineOptions> all_options() {
  return {{.threads = 1},
          {.threads = 2, .begin_ahead = true},
          {.threads = 1, .layouts = false},
          {.threads = 1, .least_joined = 1},
          {.threads = 1, .fuse = false},
          {.threads = 1,
           .fuse = false,
           .layouts = false,
           .begin_ahead = false,
           .reference_only = true}};
}

// Compares the fields that the text omits, which follow from the kernels.
void expect_same_steps(const Code& a, const Code& b) {
  EXPECT_EQ(a.scratch_bytes, b.scratch_bytes);
  EXPECT_EQ(a.channel_bytes, b.channel_bytes);
  EXPECT_EQ(a.reference_ops, b.reference_ops);
  ASSERT_EQ(a.ipus.size(), b.ipus.size());
  for (size_t i = 0; i < a.ipus.size(); ++i) {
    ASSERT_EQ(a.ipus[i].steps.size(), b.ipus[i].steps.size());
    EXPECT_EQ(a.ipus[i].table.size(), b.ipus[i].table.size());
    for (size_t s = 0; s < a.ipus[i].steps.size(); ++s) {
      const Step &x = a.ipus[i].steps[s], &y = b.ipus[i].steps[s];
      EXPECT_EQ(std::tie(x.inline_only, x.lasts, x.has_row, x.bytes, x.buffers, x.workspace,
                         x.reference, x.index),
                std::tie(y.inline_only, y.lasts, y.has_row, y.bytes, y.buffers, y.workspace,
                         y.reference, y.index))
          << "step " << s;
    }
  }
}

TEST(BoundText, IsReadBackForEveryProgram) {
  const auto programs = all_programs();
  ASSERT_GT(programs.size(), 20u);
  for (const auto& [title, program] : programs) {
    for (const EngineOptions& options : all_options()) {
      SCOPED_TRACE(title);
      const Code code = bind(program, ops::registry(), options);
      verify(code);
      const std::string text = print(code);
      const Code again = parse_code(text, program, ops::registry());
      ASSERT_EQ(print(again), text);
      expect_same_steps(code, again);
    }
  }
}

TEST(BoundText, GivesTheSameBits) {
  for (const char* name : {"pipelined_training", "replicas", "phased"}) {
    const std::string file = std::string(name) + ".program";
    const program::Program program = program::parse(read_program(file), ops::registry());
    const Outcome expected = outcome(program, {.threads = 2});
    setenv("POPTORCH_REPARSE", "1", 1);
    const Outcome again = outcome(program, {.threads = 2});
    unsetenv("POPTORCH_REPARSE");
    EXPECT_EQ(again, expected) << name;
  }
}

// A loop of two micro-batches with a product and its epilogue, a collective and a branch.
const char* const kSmall = R"(
state "w" : f32[4,4] {kind="parameter"}
state "sum" : f32[4,4] {kind="buffer"}
graph @double(%x: f32[4,4]) -> (f32[4,4]) {
  %y = add(%x, %x) : f32[4,4]
  return %y
}
graph @negate(%x: f32[4,4]) -> (f32[4,4]) {
  %y = neg(%x) : f32[4,4]
  return %y
}
graph @main(%x: f32[4,4], %z: f32[4,4], %p: bool[]) -> (f32[4,4]) {
  %w = variable() {name="w"} : f32[4,4]
  %sum = variable() {name="sum"} : f32[4,4]
  %a = linear(%x, %w, _) : f32[4,4]
  %b = exp(%a) : f32[4,4]
  %c = add(%b, %z) : f32[4,4]
  accumulate(%sum, %c)
  %g = all_reduce(%c) : f32[4,4]
  %h = reverse(%g) {axes=[0]} : f32[4,4]
  %i = if(%p, %h) {else=@negate, then=@double} : f32[4,4]
  %y = add(%i, %c) : f32[4,4]
  return %y
})";

// Returns `text` with `from` replaced.
std::string changed(const std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
  return at == std::string::npos ? text : std::string(text).replace(at, from.size(), to);
}

struct Refused {
  const char *from, *to, *message;
};

void expect_refusals(const program::Program& program, const std::vector<Refused>& cases) {
  const std::string text = print(bind(program, ops::registry(), {.threads = 1}));
  for (const Refused& one : cases) {
    try {
      parse_code(changed(text, one.from, one.to), program, ops::registry());
      ADD_FAILURE() << "accepted where this was expected: " << one.message;
    } catch (const support::Error& error) {
      EXPECT_NE(std::string(error.what()).find(one.message), std::string::npos)
          << "expected: " << one.message << "\nis: " << error.what();
    }
  }
  if (testing::Test::HasFailure()) std::cout << text;
}

TEST(BoundText, RefusesWhatIsNoCode) {
  expect_refusals(
      lowered(kSmall, {.device_iterations = 2, .replication_factor = 2}),
      {{"code", "program", "expected 'code'"},
       {"storage 3 : f32[4,4]", "storage 4 : f32[4,4]", "storage 4 stands where storage 3 belongs"},
       {"reverse(%g)", "reverse(%q)", "there is no value %q."},
       {"reverse(%g)", "reverse(%g:channels_last)", "%g has another layout."},
       {"reverse(%g) @", "reverse(%g) (slow) @", "'slow' is not a provider."},
       {"stream=\"z\"", "stream=\"q\"", "there is no stream \"q\"."},
       {"at=8 id=10", "at=2 id=10", "instruction 2 of the program is not \"reverse\"."},
       {"wires=[0, 3, 1, 2, 4]", "wires=[0, 3, 1, 2]", "'wires' ends too early."}});
}

TEST(BoundVerifier, NamesTheStepThatIsWrong) {
  expect_refusals(
      lowered(kSmall, {.device_iterations = 2, .replication_factor = 2}),
      {{"value %x : f32[4,4] at storage(2)", "value %x : f32[4,4] at storage(2, 16)",
        "[verify] value %x of 64 bytes at 16 is not within its storage of 64 bytes."},
       {"region=2]", "region=7]", "[verify] step 15 of IPU 0 is in region 7"},
       {"id=12", "id=13", "[verify] step 14 of IPU 0 is of op 13"},
       {"wires=[0, 3, 1, 2, 4]", "wires=[0, 9, 1, 2, 4]",
        "[verify] step 3 of IPU 0 reads register 9 before it is set."},
       {"elements=16", "elements=8",
        "[verify] step 4 of IPU 0 moves 32 bytes of %c, which has 64."},
       {"%i = copy(%y)", "%p = copy(%y)",
        "[verify] step 10 of IPU 0 moves 1 bytes of %y, which has 64."},
       {"at=8 id=10", "at=8 id=10 prepared=0",
        "[verify] step 6 of IPU 0 prepares its workspace by counter 0 of 0"},
       {"loops=1", "loops=2", "[verify] IPU 0 has 2 loop counters, of which 1 are used."},
       {"if(%p) @[to=12]", "if(%p) @[to=11]",
        "[verify] step 8 of IPU 0 jumps to 11, which does not follow an 'else'."},
       {"if(%p) @[to=12]", "if(%p) @[to=99]",
        "[verify] step 8 of IPU 0 jumps to 99, out of its block."},
       {"@[counter=0 to=17]", "@[counter=0 to=16]",
        "[verify] step 0 of IPU 0 jumps to 16, which does not follow the end of this loop."},
       {"  17: end()\n", "", "is not followed by 'end'."}});
}

TEST(BoundVerifier, RefusesPanelsThatAStepWrites) {
  const program::Program program = lowered(kSmall);
  Code code = bind(program, ops::registry(), {.threads = 1});
  const auto written = std::ranges::find_if(code.storages, [](const Storage& storage) {
    return storage.base == Base::kState && storage.writers > 0;
  });
  ASSERT_NE(written, code.storages.end());
  written->layout.kind = Layout::Kind::kPanelsOfRows;
  try {
    verify(code);
    ADD_FAILURE() << "accepted";
  } catch (const support::InternalError& error) {
    EXPECT_NE(std::string(error.what()).find(" is in panels, but a step writes it."),
              std::string::npos)
        << error.what();
  }
}

TEST(BoundVerifier, FollowsWhatMemoryHolds) {
  expect_refusals(
      lowered(kSmall, {.device_iterations = 2, .replication_factor = 2}),
      {{"storage 5 : f32[4,4] at arena(320)", "storage 5 : f32[4,4] at arena(340)",
        "[verify] step 3 of IPU 0 uses %a beyond the 384 bytes of the arena."},
       {"storage 8 : f32[4,4] at arena(320)", "storage 8 : f32[4,4] at arena(256)",
        "[verify] step 14 of IPU 0 reads %c, which %h has overwritten."},
       {"storage 8 : f32[4,4] at arena(320)", "storage 8 : f32[4,4] at arena(160)",
        "[verify] step 6 of IPU 0 writes %h over a part of its operand %g."},
       {"1: %x = stream_in()", "1: %a = stream_in()",
        "[verify] step 3 of IPU 0 reads %x before it is written."},
       // Only one of the branches writes the value.
       {"13: %i = copy(%y_12)", "13: %y = copy(%y_12)",
        "[verify] step 14 of IPU 0 reads %i before it is written."},
       {"storage 8 : f32[4,4] at arena(320) {", "storage 8 : f32[4,4] at arena(320) {kept=true, ",
        "[verify] step 3 of IPU 0 writes %a over %h, which is kept."}});
}

TEST(BoundVerifier, FollowsRowsThatAreJoined) {
  const program::Program program = lowered(R"(
graph @main(%x: f32[128,1024]) -> (f32[128,1024]) {
  %s = square(%x) : f32[128,1024]
  %m = mean(%s) {axes=[1], keepdims=true} : f32[128,1]
  %y = mul(%x, %m) : f32[128,1024]
  return %y
})");
  expect_refusals(
      program,
      {{"joined_rows=128", "joined_rows=96",
        "[verify] step 1 of IPU 0 divides %s into 96 rows, which it does not have."},
       {"joined_rows=128", "joined_rows=0", "[verify] step 1 of IPU 0 joins 3 kernels by 0 rows."},
       {"joined_rows=128", "joined_rows=1",
        "[verify] step 1 of IPU 0 joins other kernels than a chain and an op that takes what it "
        "makes."},
       {"[square](%x)", "[square](%s)",
        "[verify] step 1 of IPU 0 reads %s, which is held, before it is made."},
       {"stream_out(%y)", "stream_out(%s)",
        "[verify] step 2 of IPU 0 uses %s, which is held by another kernel."},
       {"{held=true, ", "{held=true, kept=true, ", " is held by one kernel, but is kept"},
       {"f32[128,1024] at arena(524288)", "f32[128,1024] at arena(0)",
        "[verify] step 1 of IPU 0 writes %y over %x, of which it needs other rows later."},
       {"stored=[1, 2]", "stored=[1]", "'stored' ends too early."},
       {"wires=[0, 0, 1]", "wires=[0, 0, 1, 1]",
        "joined kernels have more instructions, wires or stored registers than ops."}});
}

TEST(BoundVerifier, MatchesTheEndsOfChannels) {
  expect_refusals(program::parse(read_program("pipelined_training.program"), ops::registry()),
                  {{"%h1 = receive() @[channel=0", "%h1 = receive() @[channel=1",
                    "[verify] channel 0 is sent 8 times by 1 IPUs and received 0 times by 0."},
                   {"loop(4) @[counter=1", "loop(4) @[counter=0",
                    "which does not follow the end of this loop."},
                   {"channels=[24, 24]", "channels=[24, 16]", "[verify]"}});
}

}  // namespace
}  // namespace poptorch::emulator
