// Exchanges rows of state that some instances have and others need.
#include <algorithm>
#include <functional>

#include "emulator/collectives/attempts.hpp"
#include "emulator/collectives/peers.hpp"
#include "emulator/transport/fabric.hpp"
#include "storage/container.hpp"
#include "support/error.hpp"
#include "support/faults.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {

using support::str;

namespace {

// Returns a number for the tag, so that different exchanges are not mistaken for each other.
int number_of(const std::string& what) {
  return static_cast<int>(storage::digest_of(what).low & 0x7fffffff);
}

// Holds the messages to or from another instance, in their order. `next` is the first to do.
struct Queue {
  struct Message {
    std::byte* data;
    int64_t bytes;
  };
  std::vector<Message> messages = {};
  size_t next = 0;

  // Adds a row in parts. The first message of a queue is the length of a row: the parts alone do
  // not show whether both ends agree.
  void add(std::byte* data, int64_t bytes, int64_t most, int64_t& length) {
    if (messages.empty()) {
      messages.push_back({reinterpret_cast<std::byte*>(&length), int64_t{sizeof length}});
    }
    for (int64_t at = 0; at < bytes; at += most) {
      messages.push_back({data + at, std::min(most, bytes - at)});
    }
  }
  bool is_done() const { return next == messages.size(); }
  // Calls `action` on messages until it returns false. Returns whether any was done.
  template <typename Do>
  bool advance(Do action) {
    const size_t before = next;
    while (!is_done() && action(messages[next])) ++next;
    return next != before;
  }
};

}  // namespace

// Moves rows to and from the others. May stop anywhere, and continues at the next call.
class Peers::RowExchange {
 public:
  RowExchange(const Share& share, const Tag& about, const std::string& what, std::byte* rows,
              int64_t row_bytes, const std::vector<int>& owners);
  RowExchange(const RowExchange&) = delete;  // its messages are inside it

  // Moves the messages that can be moved now. Returns whether there were any.
  bool advance(Fabric& fabric);
  // Returns an instance that it waits for, or -1 if it is finished.
  int awaited() const;

 private:
  const Tag about_;
  const int64_t row_bytes_;
  int64_t own_;                  // the length of a row, which the others receive
  std::vector<int64_t> theirs_;  // the length that each of them sends
  std::vector<Queue> sends_, receives_;
};

Peers::RowExchange::RowExchange(const Share& share, const Tag& about, const std::string& what,
                                std::byte* rows, int64_t row_bytes, const std::vector<int>& owners)
    : about_(about),
      row_bytes_(row_bytes),
      own_(row_bytes),
      theirs_(static_cast<size_t>(share.instances), row_bytes),
      sends_(theirs_.size()),
      receives_(theirs_.size()) {
  const int64_t most = share.fabric->most_bytes();
  for (size_t row = 0; row < owners.size(); ++row) {
    const int owner = owners[row];
    if (owner < 0 || owner >= share.instances) {
      throw support::UserError(str("[state] row ", row, " of ", what, " is instance ", owner,
                                   "'s, but there are ", share.instances, "."));
    }
    std::byte* const data = rows + static_cast<int64_t>(row) * row_bytes;
    if (owner != share.instance) {
      const auto from = static_cast<size_t>(owner);
      receives_[from].add(data, row_bytes, most, theirs_[from]);
      continue;
    }
    for (int other = 0; other < share.instances; ++other) {
      if (other == owner) continue;
      sends_[other].add(data, row_bytes, most, own_);
    }
  }
}

bool Peers::RowExchange::advance(Fabric& fabric) {
  bool moved = false;
  for (size_t i = 0; i < sends_.size(); ++i) {
    const int other = static_cast<int>(i);
    moved |= sends_[i].advance([&](const Queue::Message& message) {
      support::check_interrupt();
      return fabric.send(other, about_, message.data, message.bytes);
    });
    moved |= receives_[i].advance([&](const Queue::Message& message) {
      support::check_interrupt();
      return fabric.receive(other, about_, message.data, message.bytes);
    });
    if (theirs_[i] != row_bytes_) refuse_length(fabric.name(other), theirs_[i], row_bytes_);
  }
  return moved;
}

int Peers::RowExchange::awaited() const {
  for (const auto* queues : {&receives_, &sends_}) {
    for (size_t other = 0; other < queues->size(); ++other) {
      if (!(*queues)[other].is_done()) return static_cast<int>(other);
    }
  }
  return -1;
}

void Peers::exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                     const std::vector<int>& owners) {
  join();
  attempts_->begin_exchange();
  has_begun_run_ = false;
  telling([&] {
    agree();
    const auto number = static_cast<uint32_t>(attempts_->current().exchange);
    RowExchange moving(share_, tag(Tag::kExchange, number_of(what), number), what, rows, row_bytes,
                       owners);
    finish(moving, what);
  });
}

void Peers::exchange_before_run(const std::string& what, std::byte* rows, int64_t row_bytes,
                                const std::vector<int>& owners) {
  begin_run_attempt();
  telling([&] {
    agree();
    if (!before_run_) {
      const Tag about{.program = number_,
                      .collective = Tag::kExchange,
                      .group = static_cast<uint32_t>(number_of(what))};  // belongs to no attempt
      before_run_ = std::make_shared<RowExchange>(share_, about, what, rows, row_bytes, owners);
    }
    finish(*before_run_, what);
  });
  before_run_.reset();
  has_begun_run_ = true;
}

void Peers::finish(RowExchange& rows, const std::string& what) {
  support::meet_fault(support::FaultPoint::kCollective, "exchange");
  for (int64_t round = 0; rows.awaited() >= 0; ++round) {
    const uint32_t seen = fabric().signal();
    if (rows.advance(fabric())) {
      round = 0;
      note_progress();
      continue;
    }
    if (round % kRoundsBetweenChecks == kRoundsBetweenChecks - 1) check(rows.awaited(), what);
    fabric().nap(round, seen);
  }
}

}  // namespace poptorch::emulator
