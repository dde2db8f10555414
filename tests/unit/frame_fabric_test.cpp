// Instances that wires connect, in threads of one process: results are bit-identical to those of
// one process, without deadlock.
#include "emulator/transport/frame_fabric.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "emulator/transport/shared_fabric.hpp"
#include "fabric_testing.hpp"

namespace poptorch::emulator {
namespace {

TEST(FrameFabric, TrainsWithTheBitsOfOneProcess) {
  const program::Program program = training_program(4);
  const Outcome whole = outcome_here(program, {.threads = 1}, 3);
  for (const auto& [instances, on_host] : {std::pair(2, 1), std::pair(4, 1), std::pair(4, 2)}) {
    Cluster cluster(instances, on_host);
    const auto raised = in_threads(instances, [&, count = instances](int i) {
      EngineOptions options{.threads = 1 + i % 2};
      options.share = {.instances = count, .instance = i, .fabric = cluster.join(i), .timeout = 0};
      const Outcome here = outcome_here(program, options, 3);
      EXPECT_EQ(here, part_of(whole, program, options.share)) << "instance " << i;
    });
    EXPECT_EQ(raised, std::vector<std::string>(static_cast<size_t>(instances)));
  }
}

// A ring of four instances on two hosts. Each sends more to the next than there is room for, before
// it receives.
TEST(FrameFabric, WhoWaitsForRoomMakesRoomOnWiresAndInMemory) {
  constexpr int kCount = 4;
  constexpr uint32_t kMessages = 400;
  Cluster cluster(kCount, 2);
  const auto raised = in_threads(kCount, [&](int here) {
    const auto fabric = cluster.join(here);
    const int64_t bytes = std::min(fabric->most_bytes(), fabric->most_bytes_on_host());
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    const auto tag_of = [&](uint32_t round, int other) {
      return Tag{.round = round, .on_one_host = fabric->is_on_this_host(other) ? 1u : 0u};
    };
    const auto wait = [&](auto ask) {
      uint32_t seen = fabric->signal();
      for (int i = 0; !ask(); ++i, seen = fabric->signal()) {
        fabric->nap(i, seen);
      }
    };
    const int next = (here + 1) % kCount, before = (here + kCount - 1) % kCount;
    for (uint32_t i = 0; i < kMessages; ++i) {
      std::fill(data.begin(), data.end(), static_cast<std::byte>(i));
      wait([&] { return fabric->send(next, tag_of(i, next), data.data(), bytes); });
    }
    for (uint32_t i = 0; i < kMessages; ++i) {
      wait([&] { return fabric->receive(before, tag_of(i, before), data.data(), bytes); });
      EXPECT_EQ(data.back(), static_cast<std::byte>(i));
    }
    fabric->leave();
  });
  EXPECT_EQ(raised, std::vector<std::string>(kCount));
}

TEST(FrameFabric, KnowsWhoIsStoppedOnItsHost) {
  const int file = memfd_create("host", MFD_CLOEXEC);
  const pid_t child = fork();
  if (child == 0) {
    const auto fabric = make_shared_fabric(file, 1, 2, 0);
    raise(SIGSTOP);
    _exit(0);
  }
  std::vector<Reached> reached;
  for (int i : {0, 1}) reached.push_back({"instance " + std::to_string(i), nullptr, i});
  const auto fabric = make_frame_fabric(0, std::move(reached), make_shared_fabric(file, 0, 2, 0));
  waitpid(child, nullptr, WUNTRACED);
  EXPECT_TRUE(fabric->is_stopped(1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(file);
}

// Offers and requests come in either order. A withdrawn request does not receive a later offer.
TEST(FrameFabric, LendsToWhoWantsAsMuch) {
  Cluster cluster(2, 1, 16);
  const auto zero = cluster.join(0), one = cluster.join(1);
  std::vector<int32_t> sent(8, 7), got(8), late(8);
  auto* from = reinterpret_cast<std::byte*>(sent.data());
  const auto wait = [&](const auto& fabric, int other, int64_t transfer) {
    while (!fabric->is_over(other, transfer)) fabric->nap(100, fabric->signal());
  };
  for (bool offered_first : {true, false}) {
    const Tag tag{.program = 1, .round = offered_first};
    int64_t offered = offered_first ? zero->offer(1, tag, from, 32) : 0;
    const int64_t wanted = one->request(0, tag, reinterpret_cast<std::byte*>(got.data()), 32);
    if (!offered_first) offered = zero->offer(1, tag, from, 32);
    wait(one, 0, wanted);
    wait(zero, 1, offered);
    EXPECT_EQ(std::exchange(got, std::vector<int32_t>(8)), sent);
  }
  const Tag tag{.program = 2};
  one->request(0, tag, reinterpret_cast<std::byte*>(late.data()), 32);
  one->withdraw(2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(one->end_of(0), "");
  zero->offer(1, tag, from, 32);
  one->request(0, tag, reinterpret_cast<std::byte*>(got.data()), 16);
  while (zero->end_of(1).empty()) zero->nap(100, zero->signal());
  EXPECT_EQ(zero->end_of(1), "it requests 16 bytes of a buffer that has 32 here");
  EXPECT_EQ(late, std::vector<int32_t>(8));
}

TEST(FrameFabric, SaysThatAnInstanceHasLeftOnceAllIsThere) {
  Cluster cluster(2, 1);
  const auto zero = cluster.join(0);
  auto one = cluster.join(1);
  const std::byte sent{7};
  EXPECT_TRUE(one->send(0, {.run = 1}, &sent, 1));
  one->leave();
  while (zero->end_of(1).empty()) zero->nap(100, zero->signal());
  EXPECT_EQ(zero->end_of(1), "it has disconnected from the others");
  std::byte got{};
  EXPECT_TRUE(zero->receive(1, {.run = 1}, &got, 1));
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(zero->send(1, {.run = 1}, &sent, 1));
}

}  // namespace
}  // namespace poptorch::emulator
