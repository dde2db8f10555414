// The modelled time of pipelines whose IPUs wait for each other at the end of each cycle.
#include "account/walk.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "account/condense.hpp"
#include "account/simulate.hpp"
#include "ops/all_ops.hpp"
#include "support/strings.hpp"

namespace poptorch::account {
namespace {

using support::str;

// Returns a pipeline of two IPUs that works on `micro_batches`. IPU 0 takes 7 cycles for the host,
// 5 for its op and 2 to send; IPU 1 takes 30 for its ops and 4 for the host.
program::Program pipeline(int64_t micro_batches, const std::string& carries) {
  const std::string sync = str("sync() {carries=\"", carries, "\"}");
  const std::string text = str(R"(
program {device="ipu2", micro_batches=)",
                               micro_batches, R"(}
stream "x" : f32[4] {to_device=true, transfers=)",
                               micro_batches, R"(}
stream "y" : f32[4] {transfers=)",
                               micro_batches, R"(}
tensor %x : f32[4] at arena(0)
tensor %a : f32[4] at arena(0)
tensor %b : f32[4] {ipu=1} at arena(0)
tensor %c : f32[4] {ipu=1} at arena(64)
ipu 0 @[arena=16] {
  loop()",
                               micro_batches, R"() @[per_micro_batch=true] {
    %x = stream_in() @[stream="x" cycles=7 pass="transfer"]
    %a = exp(%x) @[cycles=5 id=1 in_place=[0] stage=0]
    send(%a) @[channel=0 cycles=2 id=2 peer=1 stage=0]
    )",
                               sync, R"(
  }
  loop(1) {
    )",
                               sync, R"(
  }
}
ipu 1 @[arena=80] {
  loop(1) {
    )",
                               sync, R"(
  }
  loop()",
                               micro_batches, R"() @[per_micro_batch=true] {
    %b = receive() @[channel=0 cycles=2 id=2 peer=0 stage=1]
    %b = exp(%b) @[cycles=10 id=3 in_place=[0] stage=1]
    %c = exp(%b) @[cycles=20 id=4 stage=1]
    stream_out(%c) @[stream="y" cycles=4 pass="transfer"]
    )",
                               sync, R"(
  }
}
)");
  program::Program program = program::parse(text, ops::registry());
  program::verify(program);
  return program;
}

TEST(Walk, EndsOfCyclesCarryTransfersWithTheHostAndThenBetweenIpus) {
  // Work, host and links of the ramp-up, two cycles of both IPUs, and the ramp-down.
  EXPECT_EQ(walk(pipeline(3, "links and host"), {}).cycles,
            (5 + 7 + 2) + 2 * (30 + 7 + 2) + (30 + 4));
}

TEST(Walk, OtherIpusNeedNotWaitForTransfersWithTheHost) {
  EXPECT_EQ(walk(pipeline(3, "links"), {}).cycles, (7 + 5 + 2) + 2 * (30 + 4 + 2) + (30 + 4));
}

TEST(Walk, AnIpuWaitsForTransfersOfOthers) {
  // IPU 0 waits for the last output only, IPU 1 for the first input and the longer part of others.
  const std::vector<Waits> all = {{.host = 4, .links = 0}, {.host = 7 + 2 * (7 - 4), .links = 6}};
  EXPECT_EQ(walk(pipeline(3, "links and host"), {}).waits, all);
  const std::vector<Waits> links = {{.host = 0, .links = 0}, {.host = 0, .links = 6}};
  EXPECT_EQ(walk(pipeline(3, "links"), {}).waits, links);
}

TEST(Walk, ObserversSeeTransfersAfterTheWorkOfTheCycle) {
  const program::Program program = pipeline(2, "links and host");
  std::map<std::string, std::vector<int64_t>> starts;
  std::map<std::string, std::vector<int64_t>> micro_batches;
  walk(program, {}, [&](const Event& event) {
    const auto kind = event.instruction->kind;
    const char* name = kind == program::Instruction::Kind::kSend       ? "send"
                       : kind == program::Instruction::Kind::kStreamIn ? "in"
                       : event.ipu == 0                                ? "work"
                                                                       : "other";
    starts[name].push_back(event.start);
    micro_batches[name].push_back(event.micro_batch);
  });
  EXPECT_EQ(starts["work"], (std::vector<int64_t>{0, 14}));
  EXPECT_EQ(starts["in"], (std::vector<int64_t>{5, 14 + 30}));
  EXPECT_EQ(starts["send"], (std::vector<int64_t>{5 + 7, 14 + 30 + 7}));
  EXPECT_EQ(micro_batches["in"], (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(micro_batches["send"], (std::vector<int64_t>{0, 1}));
}

TEST(Walk, CondensedProgramsTakeTheSameTime) {
  for (const char* carries : {"links", "links and host"}) {
    for (int64_t micro_batches : {1, 2, 5}) {
      const program::Program program = pipeline(micro_batches, carries);
      const program::Program shorter = condensed(program);
      EXPECT_EQ(walk(shorter, {}), walk(program, {}));
      EXPECT_LT(program::instruction_count(shorter), program::instruction_count(program));
    }
  }
}

TEST(Walk, LongPipelinesAreExtrapolatedExactly) {
  const program::Program program = pipeline(300'000, "links and host");
  EXPECT_EQ(simulate(program), walk(program, {}));
}

TEST(Walk, RampsOfAPipelineAreWalkedWhole) {
  const program::Program program = pipeline(100, "links");
  const auto loops = long_loops(program, 0, Loops::kWithEvents);
  ASSERT_EQ(loops.size(), 2);
  for (const auto* loop : loops) EXPECT_EQ(loop->count, 100);
}

TEST(Walk, TheEndOfACycleNamesWhatItCarries) {
  const std::string text = program::print(pipeline(2, "links"));
  for (const char* wrong : {"\"host\"", "true", "2"}) {
    std::string changed = text;
    changed.replace(changed.find("\"links\""), 7, wrong);
    const program::Program program = program::parse(changed, ops::registry());
    EXPECT_ANY_THROW(program::verify(program)) << wrong;
  }
}

}  // namespace
}  // namespace poptorch::account
