// Helpers of tests in which wires connect instances: wires within one process.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/transport/frame_fabric.hpp"
#include "emulator/transport/shared_fabric.hpp"

namespace poptorch::emulator {

// One direction of a wire. As with Gloo, bytes are sent only after receives for them were posted.
struct Line {
  struct Posted {
    std::byte* into = nullptr;  // or from
    int64_t bytes = 0;
    bool is_done = false;
  };
  std::mutex mutex;
  std::condition_variable changed;
  using Queue = std::deque<std::shared_ptr<Posted>>;
  std::map<int, Queue> sends, receives;  // by lane
  bool is_broken = false;

  void forget(int lane) {
    for (auto* queues : {&sends, &receives}) {
      if ((*queues)[lane].empty()) queues->erase(lane);
    }
  }

  void match(int lane) {
    Queue &from = sends[lane], &to = receives[lane];
    for (; !from.empty() && !to.empty(); from.pop_front(), to.pop_front()) {
      std::memcpy(to.front()->into, from.front()->into, static_cast<size_t>(from.front()->bytes));
      from.front()->is_done = to.front()->is_done = true;
    }
    forget(lane);
    changed.notify_all();
  }
};

class LineTransfer final : public Wire::Transfer {
 public:
  LineTransfer(std::shared_ptr<Line> line, int lane, std::shared_ptr<Line::Posted> posted)
      : line_(std::move(line)), lane_(lane), posted_(std::move(posted)) {}
  ~LineTransfer() override {  // the memory may go
    std::lock_guard lock(line_->mutex);
    for (auto* queues : {&line_->sends, &line_->receives}) std::erase((*queues)[lane_], posted_);
    line_->forget(lane_);
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
  int lane_;
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
  std::unique_ptr<Transfer> send(std::byte* data, int64_t bytes, int lane) override {
    return post(out_, out_->sends, lane, data, bytes);
  }
  std::unique_ptr<Transfer> receive(std::byte* into, int64_t most, int lane) override {
    return post(in_, in_->receives, lane, into, most);
  }

 private:
  static std::unique_ptr<Transfer> post(const std::shared_ptr<Line>& line,
                                        std::map<int, Line::Queue>& queues, int lane,
                                        std::byte* data, int64_t bytes) {
    auto posted = std::make_shared<Line::Posted>(Line::Posted{data, bytes});
    std::lock_guard lock(line->mutex);
    queues[lane].push_back(posted);
    line->match(lane);
    return std::make_unique<LineTransfer>(line, lane, std::move(posted));
  }

  std::shared_ptr<Line> out_, in_;
};

// The connections of all pairs of instances, of which `on_host` run on each host, and the hosts'
// shared memory.
class Cluster {
 public:
  // `least_bulk`: the size in bytes from which messages over wires are bulk transfers.
  Cluster(int instances, int on_host, int64_t least_bulk = int64_t{1} << 20)
      : count_(instances), on_host_(on_host), least_bulk_(least_bulk) {
    for (int i = 0; i < instances * instances; ++i) lines_.push_back(std::make_shared<Line>());
    for (int i = 0; i < instances; i += on_host)
      files_.push_back(memfd_create("host", MFD_CLOEXEC));
  }
  ~Cluster() {
    for (int file : files_) close(file);
  }

  std::unique_ptr<Fabric> join(int here) {
    std::shared_ptr<Fabric> local;
    if (on_host_ > 1) {
      local = make_shared_fabric(files_[static_cast<size_t>(here / on_host_)], here % on_host_,
                                 on_host_, 0);
    }
    std::vector<Reached> reached;
    for (int other = 0; other < count_; ++other) {
      Reached& there = reached.emplace_back("instance " + std::to_string(other));
      if (local && other / on_host_ == here / on_host_) {
        there.local_number = other % on_host_;
      }
      if (other != here) {
        there.wire = std::make_unique<LineWire>(line(here, other), line(other, here));
      }
    }
    return make_frame_fabric(here, std::move(reached), local, least_bulk_);
  }

 private:
  std::shared_ptr<Line> line(int from, int to) {
    return lines_[static_cast<size_t>(from * count_ + to)];
  }

  int count_, on_host_;
  int64_t least_bulk_;
  std::vector<std::shared_ptr<Line>> lines_;
  std::vector<int> files_;
};

}  // namespace poptorch::emulator
