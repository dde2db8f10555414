// The machine that a thread takes next, and the behaviour if none can continue.
#include "emulator/run/machine_queue.hpp"

#include <deque>
#include <string>

#include "emulator/host/pool.hpp"
#include "error_text.hpp"
#include "gtest/gtest.h"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

// A queue of two replicas with two machines each, which have no code.
class QueueOfMachines : public testing::Test {
 protected:
  QueueOfMachines() {
    for (int i = 0; i < 4; ++i) {
      if (i % 2 == 0) replicas_.emplace_back(2);
      Machine& machine = machines_.emplace_back();
      machine.shared = &replicas_.back();
      machine.replica = i / 2;
    }
    queue_.begin_run(machines_);
  }

  int number_of(const Machine* machine) const {
    for (int i = 0; i < 4; ++i) {
      if (machine == &machines_[static_cast<size_t>(i)]) return i;
    }
    return -1;
  }
  // Takes a machine and returns its number, or -1.
  int take(int worker, bool take_others = true) {
    return number_of(queue_.take(worker, take_others));
  }
  Machine& machine(int number) { return machines_[static_cast<size_t>(number)]; }
  // Gives back a machine that can continue only after an event.
  void give_back_waiting(int number) {
    machine(number).seen = queue_.events_of(machine(number));
    queue_.give_back(&machine(number), false);
  }
  void make_all_wait() {
    for (int i = 0; i < 4; ++i) ASSERT_GE(take(0), 0);
    for (int i = 0; i < 4; ++i) give_back_waiting(i);
  }

  bool awaits_peers_ = false;
  std::string refusal_;
  Pool pool_{1};
  std::deque<Replica> replicas_;
  std::deque<Machine> machines_;
  MachineQueue queue_{pool_, [this] { return awaits_peers_; },
                      [this](const Machine& machine) {
                        if (!refusal_.empty() && machine.replica == 1) {
                          throw support::UserError(refusal_);
                        }
                      }};
};

TEST_F(QueueOfMachines, GivesMachinesInTheirOrder) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(take(0), i);
  EXPECT_EQ(take(0), -1);
  queue_.give_back(&machine(2), false);
  queue_.give_back(&machine(0), false);
  EXPECT_EQ(take(0), 2);
  EXPECT_EQ(take(0), 0);
}

TEST_F(QueueOfMachines, PrefersTheMachineThatTheWorkerRanLast) {
  EXPECT_EQ(take(0), 0);
  EXPECT_EQ(take(1), 1);
  EXPECT_EQ(take(0), 2);
  EXPECT_EQ(take(0), 3);
  for (int i = 0; i < 4; ++i) queue_.give_back(&machine(i), false);
  EXPECT_EQ(take(1), 1);
  EXPECT_EQ(take(1, false), -1);
  EXPECT_EQ(take(1, true), 0);
}

TEST_F(QueueOfMachines, RetriesAMachineOnlyAfterAnEventThatConcernsIt) {
  EXPECT_EQ(take(0), 0);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(take(1), i);
  give_back_waiting(0);
  EXPECT_EQ(take(0), -1);
  queue_.note_event(machine(2));  // of the other replica
  EXPECT_EQ(take(0), -1);
  queue_.note_event(machine(1));
  EXPECT_EQ(take(0), 0);
  give_back_waiting(0);
  EXPECT_EQ(take(0), -1);
  queue_.note_meeting();
  EXPECT_EQ(take(0), 0);
}

TEST_F(QueueOfMachines, IsDoneWhenAllMachinesHaveEnded) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(queue_.is_done());
    EXPECT_EQ(take(0), i);
    queue_.give_back(&machine(i), true);
  }
  EXPECT_TRUE(queue_.is_done());
  EXPECT_EQ(take(0), -1);
  queue_.begin_run(machines_);
  EXPECT_FALSE(queue_.is_done());
  queue_.cancel();
  EXPECT_TRUE(queue_.is_done());
  EXPECT_EQ(take(0), -1);
}

TEST_F(QueueOfMachines, LetsAChannelGrowOnceWhenAllWait) {
  make_all_wait();
  EXPECT_FALSE(queue_.may_overfill());
  EXPECT_EQ(take(0), -1);
  EXPECT_TRUE(queue_.may_overfill());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(take(0), i);  // all are tried again
  queue_.end_overfill();
  queue_.note_event(machine(0));
  for (int i = 0; i < 4; ++i) give_back_waiting(i);
  EXPECT_EQ(take(0), -1);  // something has happened since the last stall
  EXPECT_TRUE(queue_.may_overfill());
}

TEST_F(QueueOfMachines, RefusesAWaitThatNothingCanEnd) {
  make_all_wait();
  EXPECT_EQ(take(0), -1);
  make_all_wait();
  EXPECT_NE(text_of<support::InternalError>([&] { take(0); }).find("wait for each other for ever"),
            std::string::npos);
  EXPECT_TRUE(queue_.is_done());
}

TEST_F(QueueOfMachines, NamesTheReasonOfAWaitThatNothingCanEnd) {
  refusal_ = "replica 1 is alone";
  make_all_wait();
  EXPECT_EQ(take(0), -1);
  make_all_wait();
  EXPECT_EQ(text_of<support::UserError>([&] { take(0); }), refusal_);
}

TEST_F(QueueOfMachines, WaitsForOtherInstances) {
  awaits_peers_ = true;
  make_all_wait();
  EXPECT_EQ(take(0), -1);
  make_all_wait();
  EXPECT_EQ(take(0), -1);
  EXPECT_FALSE(queue_.is_done());
  queue_.note_meeting();
  EXPECT_EQ(take(0), 0);
}

}  // namespace
}  // namespace poptorch::emulator
