// Queues messages in memory that two processes share: one writes, the other reads, without locks.
// The other process is not trusted: its counters and lengths are checked before anything is copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "emulator/transport/mailbox.hpp"

namespace poptorch::emulator {

// Precedes the bytes of the ring in the shared memory.
struct RingCounters {
  alignas(64) std::atomic<uint64_t> written{0};  // bytes ever written
  alignas(64) std::atomic<uint64_t> read{0};     // bytes ever read
};

class SharedRing {
 public:
  SharedRing(RingCounters* counters, std::byte* data, int64_t capacity)
      : counters_(counters), data_(data), capacity_(capacity) {}

  static constexpr int64_t kHeader = 64;  // before a message, which is never split
  int64_t most_bytes() const { return capacity_ / 2 - kHeader; }

  // Writes a message; returns whether there was room. Called by the writer.
  bool write(const Tag& tag, const std::byte* data, int64_t bytes);
  // These work as those of MessageSource. Called by the reader.
  bool peek(Message& message, const std::string& sender);
  void drop(const Message& message);

 private:
  std::byte* at(uint64_t counter) const {
    return data_ + (counter & static_cast<uint64_t>(capacity_ - 1));
  }
  // Returns the bytes from there to the end of the ring.
  int64_t left(uint64_t counter) const {
    return capacity_ - static_cast<int64_t>(counter & static_cast<uint64_t>(capacity_ - 1));
  }

  RingCounters* counters_;
  std::byte* data_;
  int64_t capacity_;  // a power of two
};

}  // namespace poptorch::emulator
