// The program form: text round trips, and what the verifier refuses.
#include "program/program.hpp"

#include <gtest/gtest.h>

#include "program/replay.hpp"
#include "support/error.hpp"
#include "target/device.hpp"

namespace poptorch::program {
namespace {

const ir::Registry& registry() {
  static const ir::Registry* instance = [] {
    auto* rows = new ir::Registry();
    const std::vector<std::string> one = {"x?"}, three = {"x?", "y?", "z?"};
    for (const char* name : {"add", "relu", "reshape"}) {
      rows->add({.name = name,
                 .doc = "d",
                 .inputs = name == std::string("add") ? three : one,
                 .outputs = {"y"},
                 .attrs = {{"scale", ir::AttrType::kFloat, 1.0}},
                 .infer = [](const ir::InferContext& c) { return c.stated; },
                 .grad = ir::NoGradient{"test"},
                 .cost = [](const ir::Op&) { return ir::Cost{}; }});
    }
    return rows;
  }();
  return *instance;
}

// Two IPUs, a loop, a conditional, every kind of base and most kinds of instruction.
std::string everything() {
  return R"(program {device="ipu21", micro_batches=4, random_seed=7, replicas=2}
state "w" : f32[4] {group_size=1, kind="buffer", offset=64} = dense<f32[4]: 0.0, 0.0, 1.0, 2.5>
state "lr" : f32[] {ipu=-1, kind="hyper_parameter"}
constant dense<f32[4]: 1.0, 1.0, 1.0, 1.0>
constant dense<bool[]: true>
stream "x" : f32[4] {to_device=true, transfers=4}
stream "y" : f32[4] {keep="every_n", period=2, transfers=4}
remote "rows" : f32[4] {entries=3}
stash : f32[4] {depth=2}
tensor %x : f32[4] at arena(0)
tensor %w : f32[4] at state("w")
tensor %one : f32[4] at constant(0)
tensor %yes : bool[] {ipu=1} at constant(1)
tensor %sum : f32[4] at arena(0)
tensor %back : f32[4] at arena(64)
tensor %h : f32[4] {ipu=1} at arena(0)
tensor %h2 : f32[2,2] {ipu=1} at arena(0)
tensor %y : f32[4] {ipu=1} at arena(64)
tensor %lr : f32[] {ipu=1} at state("lr")
ipu 0 @[arena=80 code=10 constants=16 state=16] {
  loop(4) @[per_micro_batch=true] {
    %x = stream_in() @[stream="x"]
    %sum = add(%x, %w, _) {scale=0.5} @[cycles=12 id=7 in_place=[0] stage=0] scope("fc.0")
    stash(%sum) @[stash=0]
    send(%sum) @[channel=3 peer=1]
    %back = restore() @[stash=0 micro_batch=-1 pass="backward"]
    store(%back) {row=2} @[remote="rows"]
  }
  sync()
  %back = load() {row=2} @[remote="rows" phase=1]
}
ipu 1 @[arena=80] {
  loop(4) @[per_micro_batch=true] {
    %h = receive() @[channel=3 peer=0]
    %h2 = reshape(%h) @[in_place=[0]]
    if(%yes) {
      %y = relu(%h) {scale=2.0}
    } else {
      %y = copy(%h)
    }
    stream_out(%y) @[stream="y"]
  }
}
)";
}

TEST(ProgramText, PrintsWhatItParsed) {
  const Program program = parse(everything(), registry());
  EXPECT_EQ(print(program), everything());
  verify(program);
}

TEST(ProgramText, PrintsLocationsOnRequest) {
  Program program = parse(
      "program\ntensor %x : f32[] at arena(0)\nipu 0 @[arena=4] {\n  %x = add() "
      "loc(\"m.py\":4)\n}\n",
      registry());
  EXPECT_EQ(print(program).find("m.py"), std::string::npos);
  EXPECT_NE(print(program, true).find("loc(\"m.py\":4)"), std::string::npos);
  EXPECT_EQ(print(parse(print(program, true), registry()), true), print(program, true));
}

TEST(ProgramText, MakesNamesUniqueOnce) {
  Program program;
  for (const char* name : {"x", "x", "x_1", "", "a b"}) {
    program.tensors.push_back({.type = {ir::DType::kF32, {}}, .name = name});
  }
  program.ipus.resize(1);
  const std::string text = print(program);
  EXPECT_EQ(print(parse(text, registry())), text);
}

// One edit of the text, and what the parser or verifier says then.
struct Refusal {
  const char* title;
  const char* from;
  const char* to;
  const char* message;
};

std::string edited(const Refusal& refusal) {
  std::string text = everything();
  const size_t at = text.find(refusal.from);
  EXPECT_NE(at, std::string::npos) << refusal.title;
  return text.replace(at, std::string(refusal.from).size(), refusal.to);
}

constexpr Refusal kBadText[] = {
    {"unknown op", "relu(%h)", "rellu(%h)", "no instruction or op \"rellu\""},
    {"unknown tensor", "copy(%h)", "copy(%g)", "no tensor \"g\""},
    {"unknown state", "state(\"w\")", "state(\"v\")", "no state \"v\""},
    {"unknown stream", "@[stream=\"y\"]", "@[stream=\"z\"]", "no stream \"z\""},
    {"unknown key", "depth=2", "dept=2", "'dept' is not known"},
    {"value of a wrong type", "depth=2", "depth=\"2\"", "wrong type"},
    {"declared twice", "tensor %h2", "tensor %h", "declared twice"},
    {"IPUs out of order", "ipu 1 @", "ipu 2 @", "IPU 2 stands where IPU 1 belongs"},
    {"constant out of range", "constant(1)", "constant(2)", "index 2 is not below 2"},
};

TEST(ProgramText, RefusesBadText) {
  for (const Refusal& refusal : kBadText) {
    try {
      parse(edited(refusal), registry());
      ADD_FAILURE() << refusal.title << " was accepted";
    } catch (const support::UserError& error) {
      EXPECT_NE(std::string(error.what()).find(refusal.message), std::string::npos)
          << refusal.title << ": " << error.what();
    }
  }
}

constexpr Refusal kBadPrograms[] = {
    {"overlap", "tensor %y : f32[4] {ipu=1} at arena(64)", "tensor %y : f32[4] {ipu=1} at arena(8)",
     "overlap in the arena of IPU 1"},
    {"arena too small", "arena=80 code", "arena=64 code", "said to need 64 bytes but needs 80"},
    {"read before written", "    %x = stream_in() @[stream=\"x\"]\n", "",
     "before anything writes it"},
    {"operand needed after it was overwritten", "stash(%sum)", "stash(%x)",
     "needs %x after it was overwritten"},
    {"in place elsewhere", "tensor %h2 : f32[2,2] {ipu=1} at arena(0)",
     "tensor %h2 : f32[2,2] {ipu=1} at arena(16)", "but lies at"},
    {"tensor of another IPU", "%y = copy(%h)", "%y = copy(%x)", "IPU 1 uses %x of IPU 0"},
    {"send without receive", "    send(%sum) @[channel=3 peer=1]\n", "",
     "sent 0 times and received 4 times"},
    {"channel between others", "%h = receive() @[channel=3 peer=0]",
     "%h = receive() @[channel=3 peer=1]", "has no peer 1"},
    {"receive in a branch alone",
     "    %h = receive() @[channel=3 peer=0]\n    %h2 = reshape(%h) @[in_place=[0]]\n    if(%yes) "
     "{\n",
     "    if(%yes) {\n    %h = receive() @[channel=3 peer=0]\n"
     "    %h2 = reshape(%h) @[in_place=[0]]\n",
     "one end in a conditional block"},
    {"another type received", "tensor %h : f32[4]", "tensor %h : i32[4]", "is declared"},
    {"wrong number of transfers", "{to_device=true, transfers=4}", "{to_device=true, transfers=3}",
     "makes 4 transfers, not 3"},
    {"stream backwards", "{to_device=true, transfers=4}", "{transfers=4}", "runs the other way"},
    {"period does not divide", "period=2", "period=3", "keeps every 3th"},
    {"wrong micro-batch count", "micro_batches=4", "micro_batches=5", "counts 4 micro-batches"},
    {"state too small", "tensor %w : f32[4] at state(\"w\")",
     "tensor %w : f32[4] at state(\"w\", 4)", "does not fit"},
    {"stash of another IPU", "stash : f32[4] {depth=2}", "stash : f32[4] {depth=2, ipu=1}",
     "of IPU 1"},
    {"condition of many elements", "if(%yes)", "if(%h)", "a condition is one element"},
    {"groups do not divide the replicas", "{to_device=true, transfers=4}",
     "{group_size=4, to_device=true, transfers=4}", "among 2 replicas"},
    {"stream on two IPUs", "%back = load() {row=2} @[remote=\"rows\" phase=1]",
     "stream_out(%back) @[stream=\"y\"]", "used by IPUs 0 and 1"},
};

TEST(ProgramVerify, RefusesBrokenPrograms) {
  for (const Refusal& refusal : kBadPrograms) {
    try {
      verify(parse(edited(refusal), registry()));
      ADD_FAILURE() << refusal.title << " was accepted";
    } catch (const support::InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(refusal.message), std::string::npos)
          << refusal.title << ": " << error.what();
    }
  }
}

// %a crosses into the loop, so its memory is not free inside it, even after its only read.
TEST(ProgramVerify, KeepsWhatALoopReadsAgain) {
  const Program program = parse(R"(program
tensor %a : f32[4] at arena(0)
tensor %b : f32[4] at arena(16)
tensor %c : f32[4] at arena(0)
ipu 0 @[arena=32] {
  %a = add()
  loop(3) {
    %b = relu(%a)
    %c = relu(%b)
  }
}
)",
                                registry());
  EXPECT_THROW(verify(program), support::InternalError);
}

TEST(ProgramStreams, SizeHostBuffersByWhatIsKept) {
  Stream stream{.host = {.name = "y", .type = {ir::DType::kF32, {2, 3}}, .to_device = false},
                .transfers = 6};
  auto rows = [&](Keep keep) {
    stream.keep = keep;
    return stream.host_type(4).shape[0];
  };
  stream.period = 3;
  EXPECT_EQ(rows(Keep::kAll), 2 * 6 * 4);
  EXPECT_EQ(rows(Keep::kEveryN), 2 * 2 * 4);
  EXPECT_EQ(rows(Keep::kFinal), 2 * 4);
  EXPECT_EQ(rows(Keep::kSum), 2 * 4);
  EXPECT_EQ(rows(Keep::kOnce), 2);
  Stream scalar{.host = {.name = "l", .type = {ir::DType::kF32, {}}, .to_device = false},
                .keep = Keep::kFinal};
  EXPECT_EQ(scalar.host_type(1).rank(), 0);
  EXPECT_EQ(scalar.host_type(4).shape, ir::Shape{4});
}

TEST(ProgramGroups, NumberConsecutiveAndOrthogonalGroups) {
  std::vector<int> consecutive, orthogonal;
  for (int r = 0; r < 8; ++r) {
    consecutive.push_back(group_of(r, 2, 1));
    orthogonal.push_back(group_of(r, 2, 4));
    EXPECT_EQ(group_of(r, 0, 1), 0);
  }
  EXPECT_EQ(consecutive, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(orthogonal, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(group_count(8, 2), 4);
}

TEST(Device, PeaksAreThePublishedOnes) {
  // TFLOP/s of float16 and float32.
  const struct {
    const char* name;
    double half, single;
  } published[] = {{"ipu1", 124.5, 31.1}, {"ipu2", 250, 62.5}, {"ipu21", 350, 87.5}};
  for (const auto& row : published) {
    const target::Device& device = target::find_device(row.name);
    const double rate = 2e-12 * device.tiles * device.clock;
    EXPECT_NEAR(rate * device.half_macs_per_cycle, row.half, row.half * 0.01);
    EXPECT_NEAR(rate * device.float_macs_per_cycle, row.single, row.single * 0.01);
  }
  EXPECT_THROW(target::find_device("ipu3"), support::UserError);
}

TEST(Device, CyclesAreTheLargerOfComputeAndExchange) {
  const target::Device& device = target::find_device("ipu2");
  const target::Work move{.bytes = 8e12 / device.clock * 1000};  // 1000 cycles of exchange
  target::Work local = move;
  local.local = true;
  target::Work heavy = move;
  heavy.flops = 2.0 * 16 * device.tiles * 5000;
  heavy.matrix_unit = true;
  const int64_t fixed = target::compute_cycles(device, {});
  EXPECT_EQ(target::compute_cycles(device, move) - fixed, 1000);
  EXPECT_LT(target::compute_cycles(device, local) - fixed, 200);
  EXPECT_EQ(target::compute_cycles(device, heavy) - fixed, 5000);
}

}  // namespace
}  // namespace poptorch::program
