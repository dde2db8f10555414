// The reports of account/ on programs that are written by hand.
#include "account/inspection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "account/execution.hpp"
#include "account/instructions.hpp"
#include "account/simulate.hpp"
#include "account/walk.hpp"
#include "ops/all_ops.hpp"
#include "program/program.hpp"
#include "program/stays.hpp"

namespace poptorch::account {
namespace {

using Numbers = std::vector<int64_t>;

// Two IPUs, one after the other; 1,000 rounds of the loop between them.
constexpr const char* kPipeline = R"(
program {device="ipu2", micro_batches=1000}
state "fc.weight" : f32[4] {ipu=0}
stream "x" : f32[4] {to_device=true, transfers=1000}
stream "y" : f32[4] {transfers=1000}
tensor %x : f32[4] at arena(0)
tensor %w : f32[4] at state("fc.weight")
tensor %a : f32[4] at arena(0)
tensor %b : f32[4] {ipu=1} at arena(0)
tensor %c : f32[4] {ipu=1} at arena(64)
ipu 0 @[arena=16 code=10 state=16] {
  loop(1000) @[per_micro_batch=true] {
    %x = stream_in() @[stream="x" cycles=7 pass="transfer"]
    %a = mul(%x, %w) @[cycles=5 id=1 in_place=[0] stage=0] scope("fc")
    send(%a) @[channel=0 cycles=2 id=2 peer=1 stage=0]
  }
}
ipu 1 @[arena=80 code=20] {
  loop(1000) @[per_micro_batch=true] {
    %b = receive() @[channel=0 cycles=2 id=2 peer=0 stage=1]
    %c = exp(%b) @[cycles=30 id=3 stage=1] scope("fc.out")
    stream_out(%c) @[stream="y" cycles=7 pass="transfer"]
  }
}
)";

// A loop within a loop, on one IPU.
constexpr const char* kNested = R"(
program {device="ipu2"}
stream "x" : f32[4] {to_device=true}
stream "y" : f32[4]
tensor %x : f32[4] at arena(0)
ipu 0 @[arena=16] {
  %x = stream_in() @[stream="x" cycles=10 pass="transfer"]
  loop(3) @[id=5] {
    %x = exp(%x) @[cycles=100 id=1 in_place=[0]]
    loop(1000000) @[id=6] {
      %x = sin(%x) @[cycles=2 id=2 in_place=[0]]
    }
  }
  stream_out(%x) @[stream="y" cycles=10 pass="transfer"]
}
)";

program::Program parsed(const char* text) {
  program::Program program = program::parse(text, ops::registry());
  program::verify(program);
  return program;
}

// Returns an inspection with at most `most` events.
Inspection executed(const program::Program& program, int64_t most) {
  Strings strings;
  const Instructions instructions(program, strings);
  Inspection made;
  add_execution(program, instructions, made, most);
  return made;
}

int64_t sum(const Numbers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

// Returns rounds that walk `count` of each long loop.
Rounds rounds(const program::Program& program, int64_t count) {
  Rounds walked;
  for (const auto* loop : long_loops(program, 999'999, Loops::kAll)) walked[loop] = count;
  return walked;
}

TEST(Inspect, InstructionsAreRowsDepthFirst) {
  const Inspection found = inspect(parsed(kPipeline));
  EXPECT_EQ(found.instructions.column("ipu"), (Numbers{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(found.instructions.column("parent"), (Numbers{-1, 0, 0, 0, -1, 4, 4, 4}));
  EXPECT_EQ(found.instructions.column("count"),
            (Numbers{1, 1000, 1000, 1000, 1, 1000, 1000, 1000}));
  // A receive takes no time: the sender's time includes it.
  EXPECT_EQ(found.instructions.column("cycles"), (Numbers{0, 7, 5, 2, 0, 0, 30, 7}));
  EXPECT_EQ(found.instructions.column("bytes"), (Numbers{0, 16, 16, 16, 0, 16, 16, 16}));
  std::vector<std::string> kinds;
  for (int64_t number : found.instructions.column("kind")) {
    kinds.push_back(found.strings[static_cast<size_t>(number)]);
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"loop", "stream_in", "compute", "send", "loop",
                                             "receive", "compute", "stream_out"}));
}

TEST(Inspect, ValuesInPlaceOfEachOtherAreOneAllocation) {
  const Inspection found = inspect(parsed(kPipeline));
  EXPECT_EQ(found.allocations.column("ipu"), (Numbers{0, 1, 1}));
  EXPECT_EQ(found.allocations.column("first"), (Numbers{1, 5, 6}));
  EXPECT_EQ(found.allocations.column("last"), (Numbers{3, 6, 7}));
  EXPECT_EQ(found.allocations.column("offset"), (Numbers{0, 0, 64}));
}

TEST(Inspect, WhatIsCarriedThroughALoopStaysToItsEnd) {
  const program::Stays stays = program::stays_of(parsed(kNested), 0);
  ASSERT_EQ(stays.allocations.size(), 1);
  EXPECT_EQ(stays.instructions[static_cast<size_t>(stays.allocations[0].begin)], 0);
  EXPECT_EQ(stays.instructions[static_cast<size_t>(stays.allocations[0].end)], 5);
  EXPECT_EQ(stays.peak, 16);
}

TEST(Inspect, ModulesHaveWhatIsBelowThem) {
  const Inspection found = inspect(parsed(kPipeline));
  std::map<std::string, int64_t> cycles, ipus;
  for (size_t i = 0; i < found.modules.column("path").size(); ++i) {
    const auto& path = found.strings[static_cast<size_t>(found.modules.column("path")[i])];
    cycles[path] = found.modules.column("cycles")[i];
    ipus[path] = found.modules.column("ipu")[i];
  }
  EXPECT_EQ(cycles,
            (std::map<std::string, int64_t>{{"", 35'000}, {"fc", 35'000}, {"fc.out", 30'000}}));
  EXPECT_EQ(ipus, (std::map<std::string, int64_t>{{"", -1}, {"fc", -1}, {"fc.out", 1}}));
  EXPECT_EQ(sum(found.modules.column("parameters")), 8);  // of fc, and with all
  EXPECT_EQ(found.crossings.column("instruction"), (Numbers{3}));
  EXPECT_EQ(found.crossings.column("to_ipu"), (Numbers{1}));
}

TEST(Inspect, EventsAddUpToTheRun) {
  const program::Program program = parsed(kPipeline);
  const Inspection found = executed(program, 10'000);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.events.rows(), 5'000);
  EXPECT_EQ(sum(found.events.column("cycles")), 51'000);
  EXPECT_EQ(found.total_cycles, simulate(program).cycles);
  const auto &start = found.events.column("start"), &cycles = found.events.column("cycles");
  EXPECT_EQ(start.back() + cycles.back(), found.total_cycles);
  EXPECT_EQ(found.events.column("micro_batch").back(), 999);
  EXPECT_EQ(sum(found.events.column("rounds")), 5'000);
}

TEST(Inspect, WhatIsLeftOfALoopIsOneEventAnIpu) {
  const program::Program program = parsed(kPipeline);
  const Inspection found = executed(program, 500);
  EXPECT_FALSE(found.complete);
  EXPECT_LE(found.events.rows(), 500);
  const auto &rounds = found.events.column("rounds"), &rows = found.events.column("instruction");
  Numbers loops;
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (rounds[i] == 1) continue;
    loops.push_back(rows[i]);
    EXPECT_EQ(found.events.column("micro_batch")[i], 1000 - rounds[i]);
  }
  EXPECT_EQ(loops, (Numbers{0, 4}));
  // The last IPU determines the rate, which is constant by then.
  const auto &start = found.events.column("start"), &cycles = found.events.column("cycles");
  EXPECT_EQ(start.back() + cycles.back(), simulate(program).cycles);
  EXPECT_LT(found.shown_cycles, found.total_cycles);
}

TEST(Inspect, LoopsOfOneIpuAreWalkedInForTheFirstRounds) {
  const program::Program program = parsed(kNested);
  const Inspection found = executed(program, 1'000);
  EXPECT_FALSE(found.complete);
  const auto &start = found.events.column("start"), &cycles = found.events.column("cycles");
  EXPECT_EQ(start.back() + cycles.back(), simulate(program).cycles);
  EXPECT_EQ(sum(cycles), 6'000'320);  // nobody waits
  const auto& rounds = found.events.column("rounds");
  EXPECT_EQ(std::count_if(rounds.begin(), rounds.end(), [](int64_t n) { return n > 1; }), 3);
}

TEST(Inspect, AProgramThatIsTooLongEndsEarly) {
  const program::Program program = parsed(kPipeline);
  const Inspection found = executed(program, 3);
  EXPECT_FALSE(found.complete);
  EXPECT_EQ(found.events.rows(), 3);
  EXPECT_LT(found.shown_cycles, found.total_cycles);
}

TEST(Inspect, AnObserverChangesNoTime) {
  for (const char* text : {kPipeline, kNested}) {
    const program::Program program = parsed(text);
    const Rounds walked = rounds(program, 1'000'000);
    int64_t events = 0;
    const Times seen = walk(program, rounds(program, 5), [&](const Event&) { ++events; });
    EXPECT_EQ(seen, walk(program, walked));
    EXPECT_GT(events, 0);
  }
}

TEST(Inspect, ATransferOnIoTilesNeedNotSayWhatItOverlapsWith) {
  const program::Program program = parsed(R"(
program {device="ipu2"}
stream "x" : f32[4] {to_device=true}
stream "y" : f32[4]
tensor %x : f32[4] at arena(0)
ipu 0 @[arena=16] {
  %x = stream_in() {io_tiles=true} @[stream="x" cycles=10 pass="transfer"]
  stream_out(%x) @[stream="y" cycles=10 pass="transfer"]
}
)");
  EXPECT_EQ(executed(program, 100).total_cycles, 20);
}

TEST(Inspect, TheLongerBranchIsWalked) {
  const program::Program program = parsed(R"(
program {device="ipu2"}
stream "x" : f32[4] {to_device=true}
stream "c" : bool[] {to_device=true}
stream "y" : f32[4]
tensor %x : f32[4] at arena(0)
tensor %c : bool[] at arena(64)
ipu 0 @[arena=65] {
  %c = stream_in() @[stream="c" cycles=10 pass="transfer"]
  %x = stream_in() @[stream="x" cycles=10 pass="transfer"]
  if(%c) {
    %x = exp(%x) @[cycles=100 id=1 in_place=[0]]
  } else {
    %x = sin(%x) @[cycles=300 id=2 in_place=[0]]
  }
  stream_out(%x) @[stream="y" cycles=10 pass="transfer"]
}
)");
  const Inspection found = inspect(program);
  EXPECT_EQ(found.instructions.column("count"), (Numbers{1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(found.events.column("instruction"), (Numbers{0, 1, 4, 5}));
  EXPECT_EQ(sum(found.events.column("cycles")), 330);
}

}  // namespace
}  // namespace poptorch::account
