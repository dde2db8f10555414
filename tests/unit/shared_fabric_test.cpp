// Instances in separate processes, over shared memory: results are bit-identical to those of one
// process, and every wait for an absent instance ends.
#include "emulator/transport/shared_fabric.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "child_process.hpp"
#include "emulator/transport/peer_process.hpp"
#include "fabric_testing.hpp"
#include "scratch.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

struct File {
  int file = memfd_create("instances", MFD_CLOEXEC);
  ~File() { close(file); }
};

EngineOptions options_of(int file, int instance, int instances, int threads = 1,
                         double timeout = 0) {
  EngineOptions options{.threads = threads};
  options.share = {.instances = instances,
                   .instance = instance,
                   .fabric = make_shared_fabric(file, instance, instances, timeout),
                   .timeout = timeout};
  return options;
}

std::string name(int instance) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return str("instance ", instance, " on ", host, " (process ");
}

std::string check_bits(const program::Program& program, const Outcome& whole,
                       const EngineOptions& options) {
  const Outcome here = outcome_here(program, options, 3);
  return here == part_of(whole, program, options.share) ? "equal" : "other bits";
}

TEST(SharedFabric, TrainsWithTheBitsOfOneProcess) {
  const program::Program program = training_program(4);
  const Outcome whole = outcome_here(program, {.threads = 1}, 3);
  for (int instances : {2, 4}) {
    for (int threads : {1, 2, 3}) {
      const File file;
      std::vector<Child> children;
      for (int i = 0; i < instances; ++i) {
        children.push_back(start([&] {
          return check_bits(program, whole, options_of(file.file, i, instances, threads));
        }));
      }
      for (Child& child : children) EXPECT_EQ(child.end(), "equal") << instances << " " << threads;
    }
  }
}

// Instance 1 does `instead` after its first run, while instance 0 makes another run. Returns the
// error of instance 0. The clock of instance 0 advances while instance 1 is stopped.
std::string said_of(const std::function<void(Engine&)>& instead, double timeout = 0) {
  const program::Program program = training_program(2, 2000);
  const File file;
  Child one = start([&] {
    const EngineOptions options = options_of(file.file, 1, 2);
    Engine engine(program, ops::registry(), options);
    run_once(engine, inputs_of(program, options.share));
    instead(engine);
    return std::string();
  });
  Child zero = start([&] {
    const EngineOptions options = options_of(file.file, 0, 2, 1, timeout);
    double time = 0;
    const WaitClock clock([&time, fabric = options.share.fabric] {
      return fabric->is_stopped(1) ? time += 0.1 : time;
    });
    Engine engine(program, ops::registry(), options);
    run_once(engine, inputs_of(program, options.share));
    std::string text;
    try {
      for (;;) run_once(engine, inputs_of(program, options.share));
    } catch (const support::UserError& error) {
      text = error.what();
    }
    return str(engine.left_state_partial(), " ", text);
  });
  const std::string text = zero.end();
  kill(one.process, SIGKILL);
  one.end();
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(SharedFabric, EndsTheWaitForAKilledInstance) {
  const std::string text = said_of([](Engine&) { raise(SIGKILL); });
  EXPECT_TRUE(has(text, "1 [instances] all_reduce waits for " + name(1))) << text;
  EXPECT_TRUE(has(text, "its process has ended")) << text;
}

TEST(SharedFabric, EndsTheWaitForAStoppedInstance) {
  const std::string text = said_of([](Engine&) { raise(SIGSTOP); }, 0.5);
  EXPECT_TRUE(has(text, "has waited 0.5 s for instance 1")) << text;
}

TEST(SharedFabric, EndsTheWaitForAnInstanceWhoseRunFails) {
  const std::string text = said_of([](Engine& engine) {
    support::Watch watch([] { return true; }, support::Watch::kEveryTime);
    try {
      for (;;) run_once(engine, inputs_of(engine.program(), engine.share()));
    } catch (const support::Interrupted&) {
    }
    pause();
  });
  EXPECT_TRUE(has(text, "the run of " + name(1))) << text;
  EXPECT_TRUE(has(text, "has failed. Its error: interrupted")) << text;
}

TEST(SharedFabric, RefusesAnotherProgramBeforeTheFirstRun) {
  const File file;
  std::vector<Child> children;
  for (int i : {0, 1}) {
    children.push_back(start([&] {
      const program::Program program = training_program(2, 4 + i);
      const EngineOptions options = options_of(file.file, i, 2);
      Engine engine(program, ops::registry(), options);
      run_once(engine, inputs_of(program, options.share));
      return std::string();
    }));
  }
  for (int i : {0, 1}) {
    const std::string text = children[static_cast<size_t>(i)].end();
    EXPECT_TRUE(has(text, str("[instances] ", name(1 - i)))) << text;
    EXPECT_TRUE(has(text, str("runs a different program than this one, instance ", i))) << text;
  }
}

TEST(SharedFabric, NamesWhoHasNotCome) {
  const File file;
  try {
    make_shared_fabric(file.file, 0, 3, 0.1);
    FAIL();
  } catch (const support::UserError& error) {
    EXPECT_TRUE(has(error.what(), "instance 1, 2 of 3 has not joined")) << error.what();
  }
}

TEST(SharedFabric, WaitsForALockNoLongerThanForInstances) {
  const Scratch scratch;
  const std::string path = scratch.path("meeting");
  const int held = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  try {
    make_shared_fabric(path, 0, 2, 0.1);
    ADD_FAILURE();
  } catch (const support::UserError& error) {
    EXPECT_TRUE(has(error.what(), "has been locked by another instance for 0.1 s")) << error.what();
  }
  close(held);
}

TEST(SharedFabric, LeavesNoFileAndTakesNobodyElses) {
  const Scratch scratch;
  const std::string path = scratch.path("meeting");
  Child child = start([&] {
    make_shared_fabric(path, 1, 2, 0);
    return std::string("there");
  });
  make_shared_fabric(path, 0, 2, 0);
  EXPECT_EQ(child.end(), "there");
  EXPECT_FALSE(std::filesystem::exists(path));
  close(open(path.c_str(), O_CREAT | O_RDWR, 0666));
  std::filesystem::permissions(path, std::filesystem::perms::all);
  EXPECT_THROW(make_shared_fabric(path, 0, 2, 1), support::UserError);
}

TEST(SharedFabric, LeavesNoFileWhenNotAllCome) {
  const Scratch scratch;
  const std::string path = scratch.path("meeting");
  EXPECT_THROW(make_shared_fabric(path, 0, 2, 0.1), support::UserError);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SharedFabric, TakesNoLaterProcessForAnEarlierOneOfItsNumber) {
  const uint64_t started = start_time(getpid());
  EXPECT_FALSE(PeerProcess(getpid(), started).has_ended());
  EXPECT_TRUE(PeerProcess(getpid(), started + 1).has_ended());
}

// Three instances in threads send each other messages of all lengths in different orders, with two
// tags that are received in turn.
TEST(SharedFabric, CarriesMessagesOfAllLengthsInTheirOrder) {
  constexpr int kInstances = 3;
  constexpr uint32_t kMessages = 240;
  const File file;
  const auto length = [](uint32_t i, int64_t most) {
    return i % 7 == 0 ? int64_t{0} : i % 5 == 0 ? most - i % 3 : 1 + (i * 7919) % 5000;
  };
  const auto raised = in_threads(kInstances, [&](int here) {
    const auto fabric = make_shared_fabric(file.file, here, kInstances, 0);
    const int64_t most = fabric->most_bytes();
    std::vector<std::byte> sent(static_cast<size_t>(most));
    uint32_t sends[kInstances] = {}, receives[kInstances] = {};
    for (bool all = false; !all;) {
      const uint32_t seen = fabric->signal();
      bool moved = false;
      all = true;
      for (int other = 0; other < kInstances; ++other) {
        if (other == here) continue;
        if (uint32_t& i = sends[other]; i < kMessages) {
          const int64_t bytes = length(i, most);
          std::fill_n(sent.begin(), bytes, static_cast<std::byte>(i * 3 + here));
          if (fabric->send(other, {.run = i % 2}, sent.data(), bytes)) ++i, moved = true;
        }
        // In each dozen, odd numbers come after all even ones.
        if (uint32_t& i = receives[other]; i < kMessages) {
          const uint32_t in = i % 12, number = i - in + (in < 6 ? 2 * in : 2 * in - 11);
          const int64_t bytes = length(number, most);
          moved |= fabric->receive(other, {.run = number % 2}, bytes, [&](const std::byte* data) {
            const std::vector<std::byte> wanted(static_cast<size_t>(bytes),
                                                static_cast<std::byte>(number * 3 + other));
            EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), data));
            ++i;
          });
        }
        all &= sends[other] == kMessages && receives[other] == kMessages;
      }
      if (!moved) fabric->nap(100, seen);
    }
    for (int other = 0; other < kInstances; ++other) {
      EXPECT_EQ(receives[other], other == here ? 0 : kMessages) << here << " from " << other;
    }
  });
  EXPECT_EQ(raised, std::vector<std::string>(kInstances));
}

}  // namespace
}  // namespace poptorch::emulator
