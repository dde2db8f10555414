// Instances that own rows of state send them to all others.
#include <latch>

#include "fabric_testing.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

constexpr size_t kRow = 150;  // bytes: three messages

std::byte byte_of(size_t row, size_t at) { return static_cast<std::byte>(row * 31 + at); }

// Returns the initial rows of instance `here`: its own rows, and 0 for those of others.
Bytes rows_at(const std::vector<int>& owners, int here) {
  Bytes rows(owners.size() * kRow);
  for (size_t row = 0; row < owners.size(); ++row) {
    for (size_t at = 0; at < kRow && (owners[row] == here || here < 0); ++at) {
      rows[row * kRow + at] = byte_of(row, at);
    }
  }
  return rows;
}

EngineOptions options_of(const Share& share) {
  EngineOptions options{.threads = 1};
  options.share = share;
  return options;
}

TEST(ExchangeState, GivesAllRowsToAllInstances) {
  const auto program = training_program(4);
  for (const std::vector<int>& owners : {std::vector{0, 1, 2}, std::vector{1, 1},
                                         std::vector{2, 0, 3, 2, 1, 0}, std::vector<int>()}) {
    const std::vector<Share> shares = local_shares(4);
    const auto raised = in_threads(4, [&](int i) {
      Engine engine(program, ops::registry(), options_of(shares[static_cast<size_t>(i)]));
      for (int time = 0; time < 3; ++time) {
        if (time == 1) run_once(engine, inputs_of(program, shares[static_cast<size_t>(i)]));
        Bytes rows = rows_at(owners, i);
        engine.exchange("'w'", rows.data(), kRow, owners);
        EXPECT_EQ(rows, rows_at(owners, -1)) << "instance " << i;
      }
    });
    EXPECT_EQ(raised, std::vector<std::string>(4));
  }
}

TEST(ExchangeState, NamesWhatWaitsAndForWhom) {
  const auto program = training_program(4);
  const std::vector<Share> shares = local_shares(2, 0.3);
  double time = 0;
  bool passes = false;
  std::latch has_run(1);  // instance 1, which does not read the clock any more
  const WaitClock clock([&] { return passes ? time += 0.1 : time; });
  const auto raised = in_threads(2, [&](int i) {
    Engine engine(program, ops::registry(), options_of(shares[static_cast<size_t>(i)]));
    run_once(engine, inputs_of(program, shares[static_cast<size_t>(i)]));
    Bytes rows = rows_at({0, 1}, i);
    if (i == 1) return has_run.count_down();
    has_run.wait();
    passes = true;
    engine.exchange("reading 'w'", rows.data(), kRow, {0, 1});
  });
  EXPECT_NE(raised[0].find("reading 'w' has waited 0.3 s for instance 1"), std::string::npos)
      << raised[0];
  EXPECT_EQ(raised[1], "");
}

TEST(ExchangeState, RefusesOtherLengthsAndOwners) {
  const auto program = training_program(4);
  const std::vector<Share> shares = local_shares(2, 0, 1 << 20);
  const auto raised = in_threads(2, [&](int i) {
    Engine engine(program, ops::registry(), options_of(shares[static_cast<size_t>(i)]));
    Bytes rows(kRow);
    engine.exchange("'w'", rows.data(), i == 0 ? 100 : 101, {0});
  });
  EXPECT_NE(raised[1].find("100"), std::string::npos) << raised[1];
  EXPECT_NE(raised[1].find("101"), std::string::npos) << raised[1];
  const int64_t most = shares[0].fabric->most_bytes();
  const auto by_a_message = in_threads(2, [&](int i) {
    Engine engine(program, ops::registry(), options_of(shares[static_cast<size_t>(i)]));
    Bytes rows(static_cast<size_t>(2 * most));
    engine.exchange("'w'", rows.data(), i == 0 ? most : 2 * most, {0});
  });
  EXPECT_NE(by_a_message[1].find(std::to_string(2 * most)), std::string::npos) << by_a_message[1];
  const auto out_of_range = in_threads(2, [&](int i) {
    Engine engine(program, ops::registry(), options_of(shares[static_cast<size_t>(i)]));
    Bytes rows(kRow);
    engine.exchange("'w'", rows.data(), 1, {2});
  });
  EXPECT_EQ(out_of_range[0], "[state] row 0 of 'w' is instance 2's, but there are 2.");
}

TEST(ExchangeState, TellsTheOthersWhenItFails) {
  const auto program = training_program(2);
  const std::vector<Share> shares = local_shares(2);
  const auto raised = in_threads(2, [&](int i) {
    Engine engine(program, ops::registry(), options_of(shares[static_cast<size_t>(i)]));
    Bytes rows(kRow);
    engine.exchange("'w'", rows.data(), kRow, {i == 0 ? 7 : 0});
  });
  EXPECT_NE(raised[1].find("has failed. Its error: [state] row 0 of 'w'"), std::string::npos)
      << raised[1];
}

// Instances exchange notes between and during the runs of a program.
TEST(ExchangeState, NotesComeBesideRunsAndNobodyWaitsForThem) {
  const auto program = training_program(4);
  const std::vector<Share> shares = shares_by(Joining::kMixed, 2);
  const auto raised = in_threads(2, [&](int i) {
    Engine engine(program, ops::registry(), options_of(shares[static_cast<size_t>(i)]));
    Bytes note(8, static_cast<std::byte>(i));
    engine.tell(note.data(), 8);  // no other instance is known yet
    run_once(engine, inputs_of(program, shares[static_cast<size_t>(i)]));
    if (i == 1) {
      for (const int value : {40, 50}) engine.tell(Bytes(8, std::byte(value)).data(), 8);
    }
    run_once(engine, inputs_of(program, shares[static_cast<size_t>(i)]));
    for (const int value : {40, 50}) {
      if (i == 1) continue;
      int teller = -1;
      while (teller < 0) teller = engine.hear(note.data(), 8);
      EXPECT_EQ(teller, 1);
      EXPECT_EQ(note, Bytes(8, std::byte(value)));
    }
    EXPECT_EQ(engine.hear(note.data(), 8), -1);
  });
  EXPECT_EQ(raised, std::vector<std::string>(2));
}

TEST(ExchangeState, IsRefusedWithoutAFabricAndRunsGoOn) {
  const auto program = lowered(
      "graph @main(%x: f32[3]) -> (f32[3]) {\n"
      "  %y = add(%x, %x) : f32[3]\n  return %y\n}\n",
      {.replication_factor = 2});
  const Share share{.instances = 2};
  Engine engine(program, ops::registry(), options_of(share));
  const auto inputs = inputs_of(program, share);
  const auto first = run_once(engine, inputs);
  Bytes rows = rows_at({0, 1}, 0);
  EXPECT_THROW(engine.exchange("'w'", rows.data(), kRow, {0, 1}), support::UserError);
  EXPECT_EQ(run_once(engine, inputs), first);
}

TEST(ExchangeState, DoesNothingInOneProcess) {
  Engine engine(training_program(2), ops::registry(), {.threads = 1});
  Bytes rows = rows_at({0, 0}, 0);
  engine.exchange("'w'", rows.data(), kRow, {0, 0});
  EXPECT_EQ(rows, rows_at({0, 0}, -1));
}

}  // namespace
}  // namespace poptorch::emulator
