// The program stage: text round trips, and the faults that the verifier refuses.
#include "program/program.hpp"

#include <gtest/gtest.h>

#include <iostream>

#include "ir/op_def.hpp"
#include "program/replay.hpp"
#include "program/replica_groups.hpp"
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
                 .role = name == std::string("reshape") ? ir::Role::kView : ir::Role::kPlain,
                 .inputs = name == std::string("add") ? three : one,
                 .outputs = {"y"},
                 .attrs = {{"scale", ir::AttrType::kFloat, 1.0}},
                 .infer = [](const ir::InferContext& c) { return c.stated; },
                 .grad = ir::NoGradient{"test"},
                 .cost = [](const ir::Op&) { return ir::Cost{}; }});
    }
    rows->add({.name = "all_reduce",
               .doc = "d",
               .role = ir::Role::kCollective,
               .inputs = {"x"},
               .outputs = {"y"},
               .attrs = {{"group_size", ir::AttrType::kInt, int64_t{0}}},
               .infer = [](const ir::InferContext& c) { return c.stated; },
               .grad = ir::NoGradient{"test"},
               .cost = [](const ir::Op&) { return ir::Cost{}; }});
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
  const Program program = program::parse(everything(), registry());
  EXPECT_EQ(print(program), everything());
  verify(program);
}

TEST(ProgramText, PrintsLocationsOnRequest) {
  Program program = program::parse(
      "program\ntensor %x : f32[] at arena(0)\nipu 0 @[arena=4] {\n  %x = add() "
      "loc(\"m.py\":4)\n}\n",
      registry());
  EXPECT_EQ(print(program).find("m.py"), std::string::npos);
  EXPECT_NE(print(program, {.locations = true}).find("loc(\"m.py\":4)"), std::string::npos);
  const std::string located = print(program, {.locations = true});
  EXPECT_EQ(print(program::parse(located, registry()), {.locations = true}), located);
}

TEST(ProgramText, PrintsNoSeedOnRequest) {
  Program one = program::parse(everything(), registry()), other = one;
  one.random_seed = 3;
  other.random_seed = 5;
  EXPECT_NE(print(one), print(other));
  EXPECT_EQ(print(one, {.seed = false}), print(other, {.seed = false}));
  other.micro_batches_per_run += 1;
  EXPECT_NE(print(one, {.seed = false}), print(other, {.seed = false}));
}

TEST(ProgramText, MakesNamesUniqueOnce) {
  Program program;
  for (const char* name : {"x", "x", "x_1", "", "a b"}) {
    program.tensors.push_back({.type = {ir::DType::kF32, {}}, .name = name});
  }
  program.ipus.resize(1);
  const std::string text = print(program);
  EXPECT_EQ(print(program::parse(text, registry())), text);
}

// One edit of the text, and the error of the parser or verifier for it.
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
    {"constant that is none", "constant dense<bool[]: true>", "constant true", "expected dense<"},
    {"replicas beyond 32 bits", "replicas=2", "replicas=4294967296", "'replicas' is 4294967296"},
    {"stash depth beyond 32 bits", "depth=2", "depth=4294967298", "'depth' is 4294967298"},
    {"peer beyond 32 bits", "peer=1", "peer=4294967297", "'peer' is 4294967297"},
    {"key twice in braces", "depth=2", "depth=2, depth=2", "attribute 'depth' is given twice"},
    {"key twice in a bracket", "channel=3 peer=1", "channel=3 channel=3",
     "'channel' is given twice"},
    {"unknown word of keep", "keep=\"every_n\"", "keep=\"\"", "\"\" is not a value of 'keep'"},
    {"unknown pass", "pass=\"backward\"", "pass=\"back\"", "\"back\" is not a value of 'pass'"},
    {"unknown base", "at constant(0)", "at heap(0)", "'heap' is not a base of an address"},
    {"offset beyond 64 bits", "at arena(64)\n", "at arena(9223372036854775808)\n",
     "expected an offset, an integer of 64 bits"},
    {"stream without a name", " @[stream=\"y\"]", "", "there is no stream \"\""},
    {"unknown remote buffer", "{row=2} @[remote=\"rows\"]", "{row=2} @[remote=\"row\"]",
     "there is no remote \"row\""},
    {"in place of an operand beyond 32 bits", "in_place=[0] stage", "in_place=[4294967296] stage",
     "names operand 4294967296"},
    {"operand too many", "relu(%h)", "relu(%h, %h)", "takes 1 operands but got 2"},
    {"attribute that the row has not", "{scale=0.5}", "{shift=0.5}", "has no attribute 'shift'"},
    {"attribute of another type", "{scale=0.5}", "{scale=\"up\"}", "must be float but is \"up\""},
    {"result absent", "%y = relu(%h)", "_ = relu(%h)", "a result is absent"},
    {"result too many", "%y = relu(%h)", "%y, %y = relu(%h)", "gives 1 results, not 2"},
    {"literal beyond its type", "2.5>", "1e39>", "1e39 is beyond the numbers of f32"},
    {"text that is not UTF-8", "\"fc.0\"", "\"\xe9\"", "text:23:85: the text is not UTF-8"},
    {"line beyond 32 bits", "scope(\"fc.0\")", "loc(\"m.py\":2147483648)",
     "an integer from 0 to 2147483647"},
};

TEST(ProgramText, RefusesBadText) {
  std::cout << "ill-formed program texts: " << std::size(kBadText) << "\n";
  for (const Refusal& refusal : kBadText) {
    try {
      program::parse(edited(refusal), registry());
      ADD_FAILURE() << refusal.title << " was accepted";
    } catch (const support::UserError& error) {
      EXPECT_NE(std::string(error.what()).find(refusal.message), std::string::npos)
          << refusal.title << ": " << error.what();
    }
  }
}

constexpr Refusal kBadPrograms[] = {
    {"temporary data over a tensor", "[0] stage=0]", "[0] stage=0 temporary=8 temporary_at=4]",
     "temporary data at position"},
    {"temporary data of a negative size", "[0] stage=0]", "[0] stage=0 temporary=-8]",
     "bytes of temporary data"},
    {"no steps", "[0] stage=0]", "[0] stage=0 steps=0]", "has 0 steps"},
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
    {"anchor of an input", "{to_device=true, transfers=4}",
     "{anchor=0, anchored=\"x\", to_device=true, transfers=4}", "has anchor 0 of the name 'x'"},
    {"anchored without an anchor", "{to_device=true, transfers=4}",
     "{anchored=\"x\", to_device=true, transfers=4}", "has anchor -1 of the name 'x'"},
    {"no micro-batches", "micro_batches=4", "micro_batches=0", "micro-batches (0) are at least 1"},
    {"too many micro-batches", "micro_batches=4", "micro_batches=9223372036854775807",
     "are more than 1099511627776"},
    {"no replicas", "replicas=2", "replicas=0", "replicas (0)"},
    {"too many replicas", "replicas=2", "replicas=65536", "more than 65536 IPUs in all"},
    {"state's kind unknown", "kind=\"buffer\"", "kind=\"weight\"", "is not a kind of state"},
    {"state's groups do not divide", "group_size=1, kind", "group_size=3, kind",
     "state 'w' has groups of 3 by 1 among 2 replicas"},
    {"state's groups of too many by too many", "group_size=1, kind",
     "group_size=32768, group_stride=32768, kind", "groups of 32768 by 32768"},
    {"state on no IPU", "kind=\"buffer\"", "ipu=5, kind=\"buffer\"", "on IPU 5 of 2"},
    {"state in more shards than replicas", "offset=64}", "offset=64, shards=3}", "in 3 shards"},
    {"state at a negative offset", "offset=64}", "offset=-8}", "has offset -8"},
    {"state of another type than its value", "dense<f32[4]: 0.0, 0.0, 1.0, 2.5>",
     "dense<f32[1]: 0.0>", "its initial value is f32[1], not f32[4]"},
    {"remote buffer without entries", "{entries=3}", "{entries=0}", "it has 0 entries"},
    {"row beyond the entries", "{row=2} @[remote=\"rows\"]", "{row=3} @[remote=\"rows\"]",
     "names row 3 of 3"},
    {"row that is not a number", "{row=2} @[remote=\"rows\"]", "{row=\"2\"} @[remote=\"rows\"]",
     "has the attribute row=\"2\""},
    {"attribute of a transfer unknown", "sync()", "sync() {speed=2}", "has the attribute speed=2"},
    {"stash without depth", "depth=2", "depth=0", "has depth 0"},
    {"stash of no IPU", "depth=2", "depth=2, ipu=2", "on IPU 2 of 2"},
    {"tensor on no IPU", "%y : f32[4] {ipu=1}", "%y : f32[4] {ipu=2}", "lies on IPU 2 of 2"},
    {"tensor at a negative offset", "{ipu=1} at arena(64)", "{ipu=1} at arena(-64)", "offset -64"},
    {"tensor off its elements' grid", "{ipu=1} at arena(64)", "{ipu=1} at arena(66)", "offset 66"},
    {"tensor at no offset there is", "{ipu=1} at arena(64)", "{ipu=1} at arena(2251799813685248)",
     "has offset 2251799813685248"},
    {"constant too small", "%one : f32[4] at constant(0)", "%one : f32[5] at constant(0)",
     "does not fit into f32[4]"},
    {"result in a constant", "%y = copy(%h)", "%yes = copy(%yes)", "writes %yes, a constant"},
    {"stream of no host buffer that there is", "tensor %y : f32[4] {ipu=1} at arena(64)",
     "stream \"z\" : f32[4] {transfers=1099511627776}\ntensor %y : f32[4] {ipu=1} at arena(64)",
     "needs a host buffer"},
    {"stream of negative transfers", "period=2, transfers=4", "period=2, transfers=-4",
     "makes -4 transfers"},
    {"loop of negative rounds", "loop(4)", "loop(-4)", "a loop runs -4 times"},
    {"loops of too many rounds", "sync()", "loop(4611686018427387904) { loop(2) { sync() } }",
     "a loop runs 2 times, 4611686018427387904 times"},
    {"rewind of negative batches", "@[per_micro_batch=true]", "@[per_micro_batch=true rewind=-1]",
     "rewinds by -1"},
    {"micro-batches too far ahead", "micro_batch=-1", "micro_batch=-2147483648",
     "micro-batches ahead"},
    {"channel below zero", "send(%sum) @[channel=3", "send(%sum) @[channel=-3", "no channel -3"},
    {"channel beyond the limit", "send(%sum) @[channel=3", "send(%sum) @[channel=2147483647",
     "no channel 2147483647"},
    {"stash that there is not", "stash(%sum) @[stash=0]", "stash(%sum) @[stash=1]",
     "no such stash"},
    {"send to itself", "channel=3 peer=1", "channel=3 peer=0", "has no peer 0"},
    {"copy of nothing", "%y = copy(%h)", "%y = copy()", "0 operands and 1 results, not 1 and 1"},
    {"copy of another type", "%y = copy(%h)", "%y = copy(%h2)", "moves f32[2,2] where f32[4]"},
    {"restore of another type", "%back = restore()", "%x, %back = restore()", "0 operands and 2"},
    {"collective among groups that there are not", "%y = relu(%h) {scale=2.0}",
     "%y = all_reduce(%h) {group_size=3}", "'all_reduce' has groups of 3 by 1 among 2 replicas"},
    {"stream on two IPUs", "%back = load() {row=2} @[remote=\"rows\" phase=1]",
     "stream_out(%back) @[stream=\"y\"]", "used by IPUs 0 and 1"},
};

TEST(ProgramVerify, RefusesBrokenPrograms) {
  std::cout << "ill-formed programs: " << std::size(kBadPrograms) << "\n";
  for (const Refusal& refusal : kBadPrograms) {
    try {
      verify(program::parse(edited(refusal), registry()));
      ADD_FAILURE() << refusal.title << " was accepted";
    } catch (const support::InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(refusal.message), std::string::npos)
          << refusal.title << ": " << error.what();
    }
  }
}

// %a crosses into the loop, so its memory is not free inside it, even after its only read.
TEST(ProgramVerify, KeepsWhatALoopReadsAgain) {
  const Program program = program::parse(R"(program
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
  Stream scalar{.host = {.name = "l", .type = {ir::DType::kF32, {}}, .to_device = false},
                .keep = Keep::kFinal};
  EXPECT_EQ(scalar.host_type(1).rank(), 0);
  EXPECT_EQ(scalar.host_type(4).shape, ir::Shape{4});
}

TEST(ProgramGroups, NumberConsecutiveAndOrthogonalGroups) {
  std::vector<int> consecutive, orthogonal;
  for (int r = 0; r < 8; ++r) {
    consecutive.push_back(ReplicaGroups{8, 2, 1}.of(r));
    orthogonal.push_back(ReplicaGroups{8, 2, 4}.of(r));
    EXPECT_EQ((ReplicaGroups{8, 0, 1}.of(r)), 0);
  }
  EXPECT_EQ(consecutive, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(orthogonal, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ((ReplicaGroups{8, 2, 1}.count()), 4);
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

}  // namespace
}  // namespace poptorch::program
