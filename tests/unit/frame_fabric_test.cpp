// Instances that wires join, in threads of one process: the bits of one process, and no wait of all
// for each other.
#include "emulator/frame_fabric.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <stdexcept>

#include "emulator/shared_fabric.hpp"
#include "far_testing.hpp"

namespace poptorch::emulator {
namespace {

using Clock = std::chrono::steady_clock;

// One direction of a wire: as many bytes are under way as receives were posted for, as with Gloo.
struct Line {
  struct Posted {
    std::byte* into = nullptr;  // or from
    int64_t bytes = 0;
    bool is_done = false;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Posted>> sends, receives;
  bool is_broken = false;

  void match() {
    for (; !sends.empty() && !receives.empty(); sends.pop_front(), receives.pop_front()) {
      std::memcpy(receives.front()->into, sends.front()->into,
                  static_cast<size_t>(sends.front()->bytes));
      sends.front()->is_done = receives.front()->is_done = true;
    }
    changed.notify_all();
  }
};

class LineTransfer final : public Wire::Transfer {
 public:
  LineTransfer(std::shared_ptr<Line> line, std::shared_ptr<Line::Posted> posted)
      : line_(std::move(line)), posted_(std::move(posted)) {}
  ~LineTransfer() override {  // the memory may go
    std::lock_guard lock(line_->mutex);
    std::erase(line_->sends, posted_);
    std::erase(line_->receives, posted_);
  }
  void wait() override {
    std::unique_lock lock(line_->mutex);
    line_->changed.wait(lock, [&] { return posted_->is_done || is_aborted_ || line_->is_broken; });
    if (!posted_->is_done && !is_aborted_) throw std::runtime_error("the line is broken");
  }
  void abort() override {
    std::lock_guard lock(line_->mutex);
    is_aborted_ = true;
    line_->changed.notify_all();
  }

 private:
  std::shared_ptr<Line> line_;
  std::shared_ptr<Line::Posted> posted_;
  bool is_aborted_ = false;
};

class LineWire final : public Wire {
 public:
  LineWire(std::shared_ptr<Line> out, std::shared_ptr<Line> in)
      : out_(std::move(out)), in_(std::move(in)) {}
  ~LineWire() override {
    for (const auto& line : {out_, in_}) {
      std::lock_guard lock(line->mutex);
      line->is_broken = true;
      line->changed.notify_all();
    }
  }
  std::unique_ptr<Transfer> send(std::byte* data, int64_t bytes) override {
    return post(out_, &Line::sends, data, bytes);
  }
  std::unique_ptr<Transfer> receive(std::byte* into, int64_t most) override {
    return post(in_, &Line::receives, into, most);
  }

 private:
  using Queue = std::deque<std::shared_ptr<Line::Posted>>;
  static std::unique_ptr<Transfer> post(const std::shared_ptr<Line>& line, Queue Line::* queue,
                                        std::byte* data, int64_t bytes) {
    auto posted = std::make_shared<Line::Posted>(Line::Posted{data, bytes});
    std::lock_guard lock(line->mutex);
    ((*line).*queue).push_back(posted);
    line->match();
    return std::make_unique<LineTransfer>(line, std::move(posted));
  }

  std::shared_ptr<Line> out_, in_;
};

// The lines of all pairs of instances, of which each host has so many; the hosts' shared memory.
class Cluster {
 public:
  Cluster(int instances, int on_host) : count_(instances), on_host_(on_host) {
    for (int i = 0; i < instances * instances; ++i) lines_.push_back(std::make_shared<Line>());
    for (int i = 0; i < instances; i += on_host)
      files_.push_back(memfd_create("host", MFD_CLOEXEC));
  }
  ~Cluster() {
    for (int file : files_) close(file);
  }

  std::unique_ptr<Fabric> join(int here) {
    std::shared_ptr<Fabric> near;
    if (on_host_ > 1) {
      near = make_shared_fabric(files_[static_cast<size_t>(here / on_host_)], here % on_host_,
                                on_host_, 20);
    }
    std::vector<Reached> reached;
    for (int other = 0; other < count_; ++other) {
      Reached& there = reached.emplace_back("instance " + std::to_string(other));
      if (near && other / on_host_ == here / on_host_) {
        there.near_number = other % on_host_;
      } else if (other != here) {
        there.wire = std::make_unique<LineWire>(line(here, other), line(other, here));
      }
    }
    return make_frame_fabric(here, std::move(reached), near);
  }

 private:
  std::shared_ptr<Line> line(int from, int to) {
    return lines_[static_cast<size_t>(from * count_ + to)];
  }

  int count_, on_host_;
  std::vector<std::shared_ptr<Line>> lines_;
  std::vector<int> files_;
};

TEST(FrameFabric, TrainsWithTheBitsOfOneProcess) {
  const program::Program program = training_program(4);
  const Outcome whole = outcome_here(program, {.threads = 1}, 3);
  for (const auto& [instances, on_host] : {std::pair(2, 1), std::pair(4, 1), std::pair(4, 2)}) {
    Cluster cluster(instances, on_host);
    const auto raised = in_threads(instances, [&, count = instances](int i) {
      EngineOptions options{.threads = 1 + i % 2};
      options.share = {count, i, cluster.join(i), 20};
      const Outcome here = outcome_here(program, options, 3);
      EXPECT_EQ(here, part_of(whole, program, options.share)) << "instance " << i;
    });
    EXPECT_EQ(raised, std::vector<std::string>(static_cast<size_t>(instances)));
  }
}

// A circle of four on two hosts, in which each sends to the next more than finds room, before it
// asks for what it is sent.
TEST(FrameFabric, WhoWaitsForRoomMakesRoomOnWiresAndInMemory) {
  constexpr int kCount = 4;
  constexpr uint32_t kMessages = 400;
  Cluster cluster(kCount, 2);
  const auto raised = in_threads(kCount, [&](int here) {
    const auto fabric = cluster.join(here);
    const int64_t bytes = fabric->most_bytes();
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    const auto until = Clock::now() + std::chrono::seconds(20);
    const auto wait = [&](auto ask) {
      uint32_t seen = fabric->signal();
      for (int i = 0; !ask(); ++i, seen = fabric->signal()) {
        if (Clock::now() > until) throw std::runtime_error("waits for ever");
        fabric->nap(i, seen);
      }
    };
    const int next = (here + 1) % kCount, before = (here + kCount - 1) % kCount;
    for (uint32_t i = 0; i < kMessages; ++i) {
      std::fill(data.begin(), data.end(), static_cast<std::byte>(i));
      wait([&] { return fabric->send(next, {.round = i}, data.data(), bytes); });
    }
    for (uint32_t i = 0; i < kMessages; ++i) {
      wait([&] { return fabric->receive(before, {.round = i}, data.data(), bytes); });
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
    const auto fabric = make_shared_fabric(file, 1, 2, 20);
    raise(SIGSTOP);
    _exit(0);
  }
  std::vector<Reached> reached;
  for (int i : {0, 1}) reached.push_back({"instance " + std::to_string(i), nullptr, i});
  const auto fabric = make_frame_fabric(0, std::move(reached), make_shared_fabric(file, 0, 2, 20));
  waitpid(child, nullptr, WUNTRACED);
  EXPECT_TRUE(fabric->is_stopped(1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(file);
}

TEST(FrameFabric, SaysThatAnInstanceHasLeftOnceAllIsThere) {
  Cluster cluster(2, 1);
  const auto zero = cluster.join(0);
  auto one = cluster.join(1);
  const std::byte sent{7};
  EXPECT_TRUE(one->send(0, {.run = 1}, &sent, 1));
  one->leave();
  while (zero->end_of(1).empty()) zero->nap(100, zero->signal());
  EXPECT_EQ(zero->end_of(1), "it has left the others");
  std::byte got{};
  EXPECT_TRUE(zero->receive(1, {.run = 1}, &got, 1));
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(zero->send(1, {.run = 1}, &sent, 1));
}

}  // namespace
}  // namespace poptorch::emulator
