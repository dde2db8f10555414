// Attempts of several instances: an interruption at any point of an agreement ends the attempt in
// all of them once, and the next attempt succeeds. docs/many-processes.md has the protocol.
#include <latch>
#include <optional>

#include "emulator/collectives/peers.hpp"
#include "fabric_testing.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

constexpr int kInstances = 3;
// The messages of an agreement at each instance: handshakes to and from two others, then a length
// and a row of the comparison for each.
constexpr int kMessages = 4 + 8;

program::Program sum_of_all(int replicas) {
  return lowered(
      "graph @main(%x: f32[2]) -> (f32[2]) {\n"
      "  %y = all_reduce(%x) {op=\"sum\", group_size=0, group_stride=1} : f32[2]\n"
      "  return %y\n}\n",
      {.replication_factor = replicas});
}

// The point at which an agreement is interrupted: after the instance has sent and received this
// many messages.
struct Interruption {
  int instance = 0, messages = 0;
};

// Makes one instance's call: the comparison before the first run, then a run.
class Caller {
 public:
  Caller(const program::Program& program, const Share& share, std::optional<int> interrupted_after)
      : program_(program), share_(share), interrupted_after_(interrupted_after) {
    EngineOptions options{.threads = 1};
    options.share = share;
    engine_.emplace(program, ops::registry(), options);
    rows_[static_cast<size_t>(share.instance)] = 100 + share.instance;
    static_cast<LocalFabric&>(*share.fabric).has_moved = [this](const Tag& tag) {
      moved_ += tag.collective == Tag::kHello || tag.collective == Tag::kExchange ? 1 : 0;
    };
  }

  // Returns the text of the error that it raised, or "".
  std::string call() {
    const support::Watch watch(
        [this] { return interrupted_after_ && moved_ >= interrupted_after_; },
        support::Watch::kEveryTime);
    try {
      if (!has_compared_) {
        engine_->exchange_before_run("the first run", reinterpret_cast<std::byte*>(rows_.data()),
                                     sizeof rows_[0], {0, 1, 2});
        has_compared_ = true;
      }
      outputs_ = run_once(*engine_, inputs_of(program_, share_));
    } catch (const support::Interrupted& interrupted) {
      interrupted_after_.reset();
      return interrupted.what();
    } catch (const support::UserError& error) {
      interrupted_after_.reset();
      return error.what();
    }
    return "";
  }

  const std::vector<Bytes>& outputs() const { return outputs_; }
  const std::vector<int64_t>& rows() const { return rows_; }
  int moved() const { return moved_; }

 private:
  const program::Program& program_;
  const Share share_;
  std::optional<int> interrupted_after_;
  std::optional<Engine> engine_;
  std::vector<int64_t> rows_ = std::vector<int64_t>(kInstances);
  bool has_compared_ = false;
  int moved_ = 0;
  std::vector<Bytes> outputs_;
};

// Every instance fails once and then succeeds. `late` begins after all others have failed.
void expect_one_failure(const program::Program& program, const Outcome& whole,
                        const std::vector<Interruption>& interruptions, int late = -1) {
  const std::vector<Share> shares = local_shares(kInstances);
  std::latch others_have_failed(kInstances - 1);
  const auto raised = in_threads(kInstances, [&](int i) {
    std::optional<int> after;
    for (const Interruption& one : interruptions) {
      if (one.instance == i) after = one.messages;
    }
    const Share& share = shares[static_cast<size_t>(i)];
    Caller caller(program, share, after);
    if (i == late) others_have_failed.wait();
    const std::string failure = caller.call();
    if (i != late) others_have_failed.count_down();
    const bool is_told = failure.find("has failed. Its error: ") != std::string::npos;
    EXPECT_TRUE(is_told || (after && failure == "interrupted")) << failure;
    EXPECT_EQ(caller.call(), "");
    EXPECT_EQ(caller.rows(), (std::vector<int64_t>{100, 101, 102}));
    EXPECT_EQ(caller.outputs(), part_of(whole, program, share).outputs);
    EXPECT_EQ(caller.moved(), kMessages);  // none twice
  });
  EXPECT_EQ(raised, std::vector<std::string>(kInstances));
}

class AttemptsOfAll : public testing::Test {
 protected:
  const program::Program program_ = sum_of_all(kInstances);
  const Outcome whole_ = outcome_here(program_, {.threads = 1}, 1);
};

TEST_F(AttemptsOfAll, EndOnceWhereverAnInstanceIsInterrupted) {
  for (int instance = 0; instance < kInstances; ++instance) {
    for (int messages = 0; messages <= kMessages; ++messages) {
      SCOPED_TRACE(str("instance ", instance, " after ", messages, " messages"));
      expect_one_failure(program_, whole_, {{instance, messages}});
    }
  }
}

TEST_F(AttemptsOfAll, EndOnceWhereTwoInstancesAreInterrupted) {
  for (int first = 0; first <= kMessages; first += 2) {
    for (int second = 0; second <= kMessages; second += 2) {
      SCOPED_TRACE(str("after ", first, " and ", second, " messages"));
      expect_one_failure(program_, whole_, {{0, first}, {2, second}});
    }
  }
}

// The interrupted instance has sent its handshakes, and received at most that of the other one.
TEST_F(AttemptsOfAll, EndOnceForAnInstanceThatComesLater) {
  for (int instance = 0; instance < kInstances; ++instance) {
    for (int late = 0; late < kInstances; ++late) {
      if (late == instance) continue;
      const int other = kInstances - instance - late;
      for (int messages = 0; messages <= (other < late ? 3 : 2); ++messages) {
        SCOPED_TRACE(str("instance ", instance, " after ", messages, ", late ", late));
        expect_one_failure(program_, whole_, {{instance, messages}}, late);
      }
    }
  }
}

// Instances that have agreed. Only the test advances them.
class Agreed : public testing::Test {
 protected:
  Agreed() {
    for (const Share& share : shares_) peers_.push_back(std::make_unique<Peers>(share, program_));
    EXPECT_EQ(in_threads(kInstances, [&](int i) { at(i).begin_run(); }),
              std::vector<std::string>(kInstances));
  }
  Peers& at(int i) { return *peers_[static_cast<size_t>(i)]; }
  LocalFabric& fabric(int i) {
    return static_cast<LocalFabric&>(*shares_[static_cast<size_t>(i)].fabric);
  }
  // Returns the text of the error that `work` raised in an attempt of instance `i`, or "". An error
  // ends the attempt.
  std::string raised(int i, const std::function<void()>& work) {
    try {
      at(i).telling(work);
    } catch (const support::UserError& error) {
      return error.what();
    }
    return "";
  }
  void abort(int i) {
    EXPECT_EQ(raised(i, [] { throw support::UserError("a reason"); }), "a reason");
  }
  // Repeats the check of an instance that waits for another.
  std::string wait(int i, int awaited) {
    return raised(i, [&] {
      for (int time = 0; time < 5; ++time) at(i).check(awaited, "a test");
    });
  }

  const program::Program program_ = sum_of_all(kInstances);
  double time_ = 0;
  const WaitClock clock_{[this] { return time_; }};
  const std::vector<Share> shares_ = local_shares(kInstances);
  std::vector<std::unique_ptr<Peers>> peers_;
};

constexpr const char* kAborted =
    "[instances] a test cannot continue: the run of instance 0 has failed. Its error: a reason";

TEST_F(Agreed, AnAbortEndsTheAttemptOfThoseWhoWait) {
  abort(0);
  EXPECT_EQ(wait(1, 0), kAborted);
  EXPECT_EQ(wait(2, 1), kAborted);
}

TEST_F(Agreed, ANoticeOfAnAttemptThatFailedInBothIsDropped) {
  for (const int i : {0, 1, 2}) abort(i);
  for (const int i : {0, 1, 2}) at(i).begin_run();
  for (const int i : {0, 1, 2}) EXPECT_EQ(wait(i, (i + 1) % 3), "");
}

TEST_F(Agreed, ANoticeOfAnAttemptThatSucceededHereEndsTheNextOne) {
  abort(0);
  for (const int i : {0, 1, 2}) at(i).begin_run();
  EXPECT_EQ(wait(1, 0), kAborted);
  EXPECT_EQ(wait(2, 0), kAborted);
  EXPECT_NE(wait(0, 1), "");
  for (const int i : {0, 1, 2}) at(i).begin_run();
  for (const int i : {0, 1, 2}) EXPECT_EQ(wait(i, (i + 1) % 3), "");
}

TEST_F(Agreed, ANoticeOfAnAttemptBeforeThePreviousOneIsDropped) {
  abort(0);
  for (const int i : {0, 0, 1, 1, 2, 2}) at(i).begin_run();
  for (const int i : {0, 1, 2}) EXPECT_EQ(wait(i, (i + 1) % 3), "");
}

TEST_F(Agreed, ANoticeOfALaterAttemptIsKeptForThatOne) {
  at(0).begin_run();
  abort(0);
  EXPECT_EQ(wait(1, 2), "");
  at(1).begin_run();
  EXPECT_EQ(wait(1, 2), kAborted);
}

TEST_F(Agreed, NobodyWaitsForAnInstanceThatHasAbortedALaterAttempt) {
  at(0).begin_run();
  abort(0);
  EXPECT_NE(wait(1, 0).find("that instance has continued with its next run"), std::string::npos);
  at(0).begin_run();
  at(1).begin_run();
  EXPECT_EQ(wait(1, 0), kAborted);
}

TEST_F(Agreed, SeveralAbortsEndOneAttemptEach) {
  abort(0);
  at(0).begin_run();
  abort(0);
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_EQ(wait(1, 2), kAborted);
    at(1).begin_run();
  }
  EXPECT_EQ(wait(1, 2), "");
}

TEST_F(Agreed, ANoticeThatFoundNoRoomIsSentInTheNextAttempt) {
  fabric(0).has_room = [this](const Tag& tag) {
    time_ += 1;
    return tag.collective != Tag::kGiveUp;
  };
  abort(0);
  EXPECT_EQ(wait(1, 0), "");
  fabric(0).has_room = [](const Tag&) { return true; };
  at(0).begin_run();
  EXPECT_EQ(wait(0, 1), "");  // every third message finds no room
  EXPECT_EQ(wait(1, 0), kAborted);
}

TEST_F(Agreed, AnExchangeIsAnAttemptToo) {
  const std::vector<int> nobodys = {};
  for (const int i : {0, 1, 2}) at(i).exchange("'w'", nullptr, 1, nobodys);
  abort(0);
  EXPECT_EQ(wait(1, 0), kAborted);
  for (const int i : {0, 1}) at(i).exchange("'w'", nullptr, 1, nobodys);
  EXPECT_EQ(wait(1, 0), "");
  at(2).begin_run();
  EXPECT_EQ(wait(2, 0), kAborted);
}

}  // namespace
}  // namespace poptorch::emulator
