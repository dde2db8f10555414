// Collectives across instances are bit-identical to those of one process, for every distribution of
// the work.
#include <fstream>
#include <latch>
#include <sstream>

#include "emulator/collectives/fold.hpp"
#include "emulator/run/state_store.hpp"
#include "error_text.hpp"
#include "fabric_testing.hpp"
#include "sample.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

struct CollectiveCase {
  std::string op, reduce, dtype;
  int replicas, size, stride;
  int row = 23;  // several messages
};

// Each replica's operand goes through the collective to an output, together with a random mask.
program::Program program_of(const CollectiveCase& c) {
  const int ranks = c.size == 0 ? c.replicas : c.size;
  const int row = c.row;
  const std::string type = str(c.dtype, "[", ranks, ",", row, "]");
  std::string result = type;
  if (c.op == "all_gather") result = str(c.dtype, "[", ranks, ",", ranks, ",", row, "]");
  if (c.op == "reduce_scatter") result = str(c.dtype, "[", row, "]");
  const bool moves = c.op == "all_gather" || c.op == "all_to_all";
  const bool whole = c.size == 0 && c.op != "all_reduce";
  const std::string attrs =
      str("{", moves ? "" : str("op=\"", c.reduce, "\", "), "group_size=", whole ? ranks : c.size,
          ", group_stride=", c.stride, "}");
  const std::string f32 = str("f32[", ranks, ",", row, "]");
  std::string text = str("graph @main(%f0: ", f32, ") -> (", result, ", f32[4]) {\n");
  for (int i = 0; i < 4; ++i) {
    text += str("  %f", i + 1, " = add(%f", i, ", %f", i, ") : ", f32, "\n");
  }
  text += str("  %x = cast(%f4) {dtype=", c.dtype, "} : ", type, "\n", "  %y = ", c.op, "(%x) ",
              attrs, " : ", result, "\n",
              "  %r = random_uniform() {shape=[4], low=0.0, high=1.0, dtype=f32} : f32[4]\n",
              "  return %y, %r\n}\n");
  return lowered(text, {.device_iterations = 2, .replication_factor = c.replicas});
}

constexpr const char* kReductions[] = {"sum", "mean", "max",   "min",       "mul",
                                       "and", "or",   "local", "square_add"};
constexpr const char* kTypes[] = {"f32", "f16", "bf16", "f64", "i32", "u32",
                                  "i64", "i16", "i8",   "u8",  "bool"};
struct Group {
  int replicas, size, stride;
};
constexpr Group kGroups[] = {{4, 0, 1}, {4, 2, 1}, {4, 2, 2}, {6, 3, 2}, {6, 6, 1}, {8, 2, 4}};

TEST(RemoteCollective, HasTheBitsOfOneProcessInEveryReduction) {
  Sample sample;
  for (const char* op : {"all_reduce", "reduce_scatter"}) {
    for (const char* reduce : kReductions) {
      for (const char* dtype : {"f32", "f16", "i32"}) {
        if (!sample.takes()) continue;
        SCOPED_TRACE(str(op, " ", reduce, " ", dtype));
        expect_same_bits(program_of({op, reduce, dtype, 6, 3, 2}), {2});
      }
    }
  }
}

TEST(RemoteCollective, HasTheBitsOfOneProcessInEveryType) {
  Sample sample;
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"}) {
    for (const char* dtype : kTypes) {
      if (!sample.takes()) continue;
      SCOPED_TRACE(str(op, " ", dtype));
      expect_same_bits(program_of({op, "sum", dtype, 4, 0, 1}), {1}, 1);
    }
  }
}

TEST(RemoteCollective, HasTheBitsOfOneProcessInEveryGroup) {
  Sample sample;
  size_t number = 0;
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"}) {
    for (const Group& group : kGroups) {
      if (!sample.takes()) continue;
      SCOPED_TRACE(str(op, " ", group.size, " by ", group.stride, " of ", group.replicas));
      expect_same_bits_by_turns(
          program_of({op, "mean", "f32", group.replicas, group.size, group.stride}), {1, 2, 3},
          number++);
    }
  }
}

// Several blocks of each instance's share, the last ones shorter.
TEST(RemoteCollective, HasTheBitsOfOneProcessOfLongOperands) {
  Sample sample;
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"}) {
    for (const char* dtype : {"f32", "f16"}) {
      SCOPED_TRACE(str(op, " ", dtype));
      for (const auto& [way, row] :
           {std::pair(Joining::kNear, 70001), std::pair(Joining::kLent, 701),
            std::pair(Joining::kMixed, 701)}) {
        if (!sample.takes()) continue;
        expect_same_bits(program_of({op, "sum", dtype, 4, 0, 1, row}), {1, 2}, 1, way);
      }
    }
  }
}

TEST(RemoteCollective, TrainsWithTheBitsOfOneProcess) {
  expect_same_bits(training_program(4), {1, 2, 3}, 3);
}

// A weight that pairs of replicas share, in other instances. Groups that an instance does not own
// stay unchanged.
TEST(RemoteCollective, KeepsItsOwnReplicasStateAlone) {
  std::ifstream in(std::string(POPTORCH_TESTS_DIR) + "/ir/programs/replicas.program");
  std::stringstream text;
  text << in.rdbuf();
  const program::Program program = program::parse(text.str(), ops::registry());
  expect_same_bits(program, {1, 2});
  const auto shares = local_shares(4);
  EngineOptions options{.threads = 1};
  options.share = shares[1];
  const Engine engine(program, ops::registry(), options);
  EXPECT_EQ(engine.state().remote_groups("w"), (std::vector<std::pair<int, int>>{{0, 0}}));
}

std::string refusal(const program::Program& program, const Share& share) {
  return text_of<support::UserError>([&] {
    EngineOptions options{.threads = 1};
    options.share = share;
    Engine engine(program, ops::registry(), options);
    run_once(engine, inputs_of(program, share));
  });
}

TEST(RemoteCollective, RefusesSharesThatCannotBe) {
  const program::Program program = program_of({"all_reduce", "sum", "f32", 4, 0, 1});
  EXPECT_NE(refusal(program, {.instances = 3}).find("4 replicas cannot be shared by 3 instances"),
            std::string::npos);
  EXPECT_NE(refusal(program, {.instances = 2, .instance = 2}).find("no instance 2 of 2"),
            std::string::npos);
  EXPECT_NE(refusal(program, {.instances = 2}).find("it is not connected to them"),
            std::string::npos);
  EXPECT_NE(refusal(program, local_shares(4, 0.1)[0]).find("has waited 0.1 s for instance"),
            std::string::npos);
}

// One instance does not take the branch to a collective: the instances that wait for it name it,
// and the others are notified.
void expect_end_of_wait(const CollectiveCase& c, int gone) {
  SCOPED_TRACE(str(c.op, " of ", c.replicas, " replicas without instance ", gone));
  constexpr int kInstances = 3;
  const program::Program program = program_of(c);
  const auto shares = local_shares(kInstances, 20);
  const auto raised = in_threads(kInstances, [&](int i) {
    EngineOptions options{.threads = 1};
    options.share = shares[static_cast<size_t>(i)];
    Engine engine(program, ops::registry(), options);
    run_once(engine, inputs_of(program, options.share));
    if (i != gone) return static_cast<void>(run_once(engine, inputs_of(program, options.share)));
    const std::byte anything{};
    const Tag later{.program = 0, .run = 9};
    for (int other = 0; other < kInstances; ++other) {
      while (other != gone && !options.share.fabric->send(other, later, &anything, 1)) {
      }
    }
  });
  const std::string names =
      str("waits for instance ", gone, ", but that instance has continued with its next run");
  int naming = 0;
  for (int i = 0; i < kInstances; ++i) {
    const std::string& text = raised[static_cast<size_t>(i)];
    const bool does_name = text.find(names) != std::string::npos;
    const bool is_told = text.find("cannot continue: the run of instance") != std::string::npos;
    EXPECT_EQ(does_name || is_told, i != gone) << "instance " << i << ": " << text;
    naming += does_name ? 1 : 0;
  }
  EXPECT_GE(naming, 1);
}

TEST(RemoteCollective, EndsTheWaitForAnInstanceThatHasGoneOn) {
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather"}) {
    for (int replicas : {3, 6}) {
      for (int gone : {0, 1, 2}) expect_end_of_wait({op, "sum", "f32", replicas, 0, 1}, gone);
    }
  }
}

// Instance 0 waits in a collective while instance 1 is stopped before it: they have made different
// numbers of rounds.
class RemoteCollectiveBy : public testing::TestWithParam<Joining> {};

TEST_P(RemoteCollectiveBy, RunsOnAfterARunThatWasStoppedInOneInstance) {
  const program::Program program = program_of({"all_reduce", "sum", "f32", 2, 0, 1});
  const Outcome whole = outcome_here(program, {.threads = 1}, 2);
  const auto shares = shares_by(GetParam(), 2);
  std::latch is_waiting(1);
  const auto raised = in_threads(2, [&](int i) {
    EngineOptions options{.threads = 1};
    options.share = shares[static_cast<size_t>(i)];
    Engine engine(program, ops::registry(), options);
    const auto inputs = inputs_of(program, options.share);
    run_once(engine, inputs);
    {
      constexpr int kLooks = 200;  // more than its own steps need
      int looks = 0;
      const auto stops = [&] {
        if (i == 0 && ++looks == kLooks) is_waiting.count_down();
        return i == 1;
      };
      support::Watch watch(stops, support::Watch::kEveryTime);
      if (i == 1) is_waiting.wait();
      EXPECT_ANY_THROW(run_once(engine, inputs)) << "instance " << i;
      // A run that ends sooner must not leave the other instance waiting.
      if (i == 0 && looks < kLooks) {
        ADD_FAILURE() << "the run ended after " << looks << " looks";
        is_waiting.count_down();
      }
    }
    EXPECT_EQ(run_once(engine, inputs), part_of(whole, program, options.share).outputs);
  });
  EXPECT_EQ(raised, std::vector<std::string>(2));
}

INSTANTIATE_TEST_SUITE_P(Ways, RemoteCollectiveBy, testing::ValuesIn(kJoinings));

// Numbers that overflow, such as 256 in a byte.
TEST(RemoteCollective, MeansOfMoreOperandsThanTheTypeHolds) {
  const std::vector<int8_t> operand(3, 1);
  for (size_t ranks : {128, 256, 300}) {
    const std::vector<const std::byte*> operands(
        ranks, reinterpret_cast<const std::byte*>(operand.data()));
    std::vector<int8_t> result(3, 7);
    reduce_ranks(ir::DType::kI8, Reduction::kMean, operands,
                 reinterpret_cast<std::byte*>(result.data()), 3);
    // Sums wrap: 128 is -128.
    const auto sum = static_cast<int8_t>(ranks);
    const auto mean = static_cast<int8_t>(sum / static_cast<int64_t>(ranks));
    EXPECT_EQ(result, std::vector<int8_t>(3, mean)) << ranks;
  }
}

}  // namespace
}  // namespace poptorch::emulator
