// The pool runs every task once, on any number of threads, and survives exceptions and fork.
#include "emulator/host/pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "emulator/host/backoff.hpp"
#include "sanitizers.hpp"

namespace poptorch::emulator {
namespace {

// Returns whether a thread is asleep according to /proc.
bool is_asleep(const std::filesystem::path& thread) {
  std::ifstream in(thread / "stat");
  std::string text;
  std::getline(in, text);
  const size_t name_end = text.rfind(')');
  return name_end == text.npos || text[name_end + 2] == 'S';
}

// Waits until all threads except this one are asleep.
void wait_until_workers_sleep() {
  const std::string own = std::to_string(gettid());
  const auto sleeps = [&](const auto& thread) {
    return thread.path().filename() == own || is_asleep(thread.path());
  };
  const std::filesystem::path threads = "/proc/self/task";
  for (bool all = false; !all;) {
    std::this_thread::yield();
    all = std::ranges::all_of(std::filesystem::directory_iterator(threads), sleeps);
  }
}

class PoolOf : public testing::TestWithParam<int> {};

TEST_P(PoolOf, RunsEveryTaskOnce) {
  Pool pool(GetParam());
  for (int tasks : {0, 1, 2, 7, 100}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<int> count(tasks, 0);
      std::atomic<bool> worker_ok = true;
      auto task = [&](int i, int worker) {
        ++count[i];
        if (worker < 0 || worker >= pool.threads()) worker_ok = false;
      };
      pool.run(tasks, task);
      EXPECT_EQ(count, std::vector<int>(tasks, 1));
      EXPECT_TRUE(worker_ok);
    }
  }
}

TEST_P(PoolOf, RethrowsTheFirstErrorByTaskAndStaysUsable) {
  Pool pool(GetParam());
  std::atomic<int> ran = 0;
  auto task = [&](int i, int) {
    ++ran;
    if (i >= 3) throw std::runtime_error("task " + std::to_string(i));
  };
  for (int round = 0; round < 20; ++round) {
    ran = 0;
    try {
      pool.run(8, task);
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 3");
    }
    EXPECT_EQ(ran, 8);
  }
}

TEST_P(PoolOf, RunsNestedTasksOnceAndRethrowsTheirErrors) {
  Pool pool(GetParam());
  std::atomic<int> inner = 0, caught = 0;
  auto outer = [&](int number, int) {
    auto task = [&](int i, int) {
      ++inner;
      if (number == 3 && i >= 2) throw std::runtime_error("task " + std::to_string(i));
    };
    try {
      pool.run(5, task);
    } catch (const std::runtime_error& error) {
      caught += std::string(error.what()) == "task 2";
    }
  };
  pool.run(6, outer);
  EXPECT_EQ(inner, 30);
  EXPECT_EQ(caught, 1);
}

TEST_P(PoolOf, RunsCallsFromTasksOfTasksOnTheSameWorker) {
  Pool pool(GetParam());
  std::atomic<int> innermost = 0;
  auto outer = [&](int, int) {
    auto middle = [&](int, int) {
      auto task = [&](int, int) { ++innermost; };
      pool.run(3, task);
    };
    pool.run(4, middle);
  };
  pool.run(2, outer);
  EXPECT_EQ(innermost, 24);
}

// Two tasks of one nested call wait for each other: that ends only if an idle worker takes one.
TEST(Pool, LetsIdleTasksHelpWithNestedCalls) {
  Pool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> done = false;
    std::atomic<int> met = 0;
    auto outer = [&](int number, int) {
      if (number == 0) {
        auto task = [&](int, int) {
          ++met;
          while (met < 2) std::this_thread::yield();
        };
        pool.run(2, task);
        done = true;
        pool.announce();
        return;
      }
      while (true) {
        const uint32_t signal = pool.signal();
        if (done) return;
        pool.idle(signal);
      }
    };
    pool.run(2, outer);
    EXPECT_EQ(met, 2);
    if (round % 5 == 0) wait_until_workers_sleep();
  }
}

TEST_P(PoolOf, ServesSeveralCallersWithoutSharingAWorker) {
  Pool pool(GetParam());
  std::vector<std::atomic<int>> busy(pool.threads());
  std::atomic<bool> shared = false;
  std::atomic<int> ran = 0;
  auto caller = [&] {
    for (int round = 0; round < 200; ++round) {
      auto task = [&](int, int worker) {
        if (busy[worker].fetch_add(1) != 0) shared = true;
        ++ran;
        busy[worker].fetch_sub(1);
      };
      pool.run(4, task);
    }
  };
  std::thread first(caller), second(caller);
  first.join();
  second.join();
  EXPECT_EQ(ran, 1600);
  EXPECT_FALSE(shared);
}

TEST_P(PoolOf, WakesWorkersThatWentToSleep) {
  Pool pool(GetParam());
  std::atomic<int> ran = 0;
  auto task = [&](int, int) { ++ran; };
  for (int round = 0; round < 3; ++round) {
    pool.run(16, task);
    wait_until_workers_sleep();
  }
  EXPECT_EQ(ran, 48);
}

TEST_P(PoolOf, StartsItsThreadsAgainInAChildOfFork) {
#ifdef POPTORCH_SANITIZED
  GTEST_SKIP() << "the allocator of a sanitizer may be locked by another thread at the fork";
#endif
  Pool pool(GetParam());
  std::atomic<int> ran = 0;
  auto task = [&](int, int) { ++ran; };
  pool.run(8, task);
  const pid_t child = fork();
  if (child == 0) {
    ran = 0;
    for (int round = 0; round < 10; ++round) pool.run(8, task);
    _exit(ran == 80 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  pool.run(8, task);
  EXPECT_EQ(ran, 16);
}

INSTANTIATE_TEST_SUITE_P(Threads, PoolOf, testing::Values(1, 2, 4));

// A helper can raise an error, for example an observer without memory for its notes.
TEST(Pool, RethrowsWhatHelpersThrow) {
  struct Failing final : HelperScope {
    void* begin() override {
      has_begun = true;
      if (!at_end) throw std::runtime_error("begin");
      return nullptr;
    }
    void end(void*) override {
      if (at_end) throw std::runtime_error("end");
    }
    std::atomic<bool> has_begun = false;
    bool at_end = false;
  };
  for (const bool at_end : {false, true}) {
    Pool pool(2);
    Failing failing;
    failing.at_end = at_end;
    auto task = [&](int, int worker) {
      while (worker == 0 && !failing.has_begun) std::this_thread::yield();
    };
    try {
      pool.run(2, task, {}, &failing);
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), at_end ? "end" : "begin");
    }
  }
}

// A counter that overflowed would be negative, so the thread would spin again.
TEST(Backoff, AWaitOfAnyLengthYieldsTheCore) {
  Backoff backoff(std::numeric_limits<int>::max() - 1);
  for (int i = 0; i < 3; ++i) backoff.wait();
  EXPECT_TRUE(backoff.yields());
}

}  // namespace
}  // namespace poptorch::emulator
