// Implements peers.hpp: rows of state that instances have and others want.
#include <algorithm>
#include <functional>

#include "emulator/fabric.hpp"
#include "emulator/peers.hpp"
#include "support/error.hpp"
#include "support/faults.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {

using support::str;

namespace {

constexpr int kRoundsBetweenChecks = 64;

// Instances that exchange different things do not take one for the other.
int number_of(const std::string& what) {
  return static_cast<int>(std::hash<std::string>()(what) & 0x7fffffff);
}

// What goes to, or comes from, another instance: messages in their order, `next` the first to do.
struct Queue {
  struct Message {
    std::byte* data;
    int64_t bytes;
  };
  std::vector<Message> messages = {};
  size_t next = 0;

  // The first of its messages is how long a row is: whether ends agree cannot be told from parts.
  void add(std::byte* data, int64_t bytes, int64_t most, int64_t& length) {
    if (messages.empty()) {
      messages.push_back({reinterpret_cast<std::byte*>(&length), int64_t{sizeof length}});
    }
    for (int64_t at = 0; at < bytes; at += most) {
      messages.push_back({data + at, std::min(most, bytes - at)});
    }
  }
  bool is_done() const { return next == messages.size(); }
  // Whether any was done.
  template <typename Do>
  bool advance(Do action) {
    const size_t before = next;
    while (!is_done() && action(messages[next])) ++next;
    return next != before;
  }
};

}  // namespace

void Peers::exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                     const std::vector<int>& owners) {
  support::meet_fault(support::FaultPoint::kCollective, "exchange");
  meet();
  telling([&] { move_rows(what, rows, row_bytes, owners); });
}

void Peers::move_rows(const std::string& what, std::byte* rows, int64_t row_bytes,
                      const std::vector<int>& owners) {
  const Tag about = tag(Tag::kExchange, number_of(what), exchanges_++);
  const int64_t most = fabric().most_bytes();
  int64_t own = row_bytes;
  std::vector<int64_t> theirs(static_cast<size_t>(share_.instances), row_bytes);
  std::vector<Queue> sends(static_cast<size_t>(share_.instances)), receives(sends.size());
  for (size_t row = 0; row < owners.size(); ++row) {
    const int owner = owners[row];
    if (owner < 0 || owner >= share_.instances) {
      throw support::UserError(str("[state] row ", row, " of ", what, " is instance ", owner,
                                   "'s, but there are ", share_.instances, "."));
    }
    std::byte* const data = rows + static_cast<int64_t>(row) * row_bytes;
    if (owner != share_.instance) {
      const auto from = static_cast<size_t>(owner);
      receives[from].add(data, row_bytes, most, theirs[from]);
      continue;
    }
    for (int other = 0; other < share_.instances; ++other) {
      if (other == owner) continue;
      sends[static_cast<size_t>(other)].add(data, row_bytes, most, own);
    }
  }
  const auto awaited = [&] {
    for (const auto* queues : {&receives, &sends}) {
      for (size_t other = 0; other < queues->size(); ++other) {
        if (!(*queues)[other].is_done()) return static_cast<int>(other);
      }
    }
    return -1;
  };
  for (int round = 0; awaited() >= 0; ++round) {
    const uint32_t seen = fabric().signal();
    bool moved = false;
    for (int other = 0; other < share_.instances; ++other) {
      moved |= sends[static_cast<size_t>(other)].advance([&](const Queue::Message& message) {
        return fabric().send(other, about, message.data, message.bytes);
      });
      moved |= receives[static_cast<size_t>(other)].advance([&](const Queue::Message& message) {
        return fabric().receive(other, about, message.data, message.bytes);
      });
      const int64_t length = theirs[static_cast<size_t>(other)];
      if (length != row_bytes) refuse_length(fabric().name(other), length, row_bytes);
    }
    support::check_interrupt();
    if (moved) {
      round = 0;
      note_progress();
      continue;
    }
    if (round % kRoundsBetweenChecks == kRoundsBetweenChecks - 1) check(awaited(), what);
    fabric().nap(round, seen);
  }
}

}  // namespace poptorch::emulator
