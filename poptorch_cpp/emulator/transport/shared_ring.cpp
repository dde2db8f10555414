#include "emulator/transport/shared_ring.hpp"

#include <algorithm>
#include <cstring>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

// Precedes each message. It stands alone where the next message does not fit before the ring's end.
struct Header {
  Tag tag;
  uint32_t bytes = 0;
};

constexpr uint32_t kToTheBegin = ~uint32_t{0};

// Returns the bytes that a message takes: messages begin at multiples of kHeader.
int64_t ring_room_of(int64_t bytes) {
  constexpr int64_t grain = SharedRing::kHeader;
  return grain + (bytes + grain - 1) / grain * grain;
}

}  // namespace

static_assert(sizeof(Header) <= SharedRing::kHeader);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

bool SharedRing::write(const Tag& tag, const std::byte* data, int64_t bytes) {
  uint64_t written = counters_->written.load(std::memory_order_relaxed);
  const uint64_t read = counters_->read.load(std::memory_order_acquire);
  const int64_t room = ring_room_of(bytes);
  const int64_t skipped = left(written) < room ? left(written) : 0;
  const auto used = static_cast<int64_t>(written - read);
  if (used + skipped + room > capacity_) return false;
  if (skipped > 0) {
    const Header skip{.tag = {}, .bytes = kToTheBegin};
    std::memcpy(at(written), &skip, sizeof skip);
    written += static_cast<uint64_t>(skipped);
  }
  const Header header{.tag = tag, .bytes = static_cast<uint32_t>(bytes)};
  std::memcpy(at(written), &header, sizeof header);
  if (bytes > 0) std::memcpy(at(written) + kHeader, data, static_cast<size_t>(bytes));
  counters_->written.store(written + static_cast<uint64_t>(room), std::memory_order_release);
  return true;
}

bool SharedRing::peek(Message& message, const std::string& sender) {
  for (;;) {
    const uint64_t read = counters_->read.load(std::memory_order_relaxed);
    const uint64_t there = counters_->written.load(std::memory_order_acquire) - read;
    if (there == 0) return false;
    const bool is_sane = there <= static_cast<uint64_t>(capacity_) && there >= kHeader;
    Header header;
    if (is_sane) std::memcpy(&header, at(read), sizeof header);
    if (is_sane && header.bytes == kToTheBegin && there >= static_cast<uint64_t>(left(read))) {
      counters_->read.store(read + static_cast<uint64_t>(left(read)), std::memory_order_release);
      continue;
    }
    const int64_t room = is_sane ? ring_room_of(header.bytes) : 0;
    if (!is_sane || header.bytes > most_bytes() || static_cast<uint64_t>(room) > there ||
        room > left(read)) {
      throw support::UserError(support::str(
          "[instances] ", sender, " wrote bytes to the shared memory that are not a message (",
          there, " bytes, length ", header.bytes, "). Start all instances again."));
    }
    message = {header.tag, at(read) + kHeader, header.bytes};
    return true;
  }
}

void SharedRing::drop(const Message& message) {
  const uint64_t read = counters_->read.load(std::memory_order_relaxed);
  counters_->read.store(read + static_cast<uint64_t>(ring_room_of(message.bytes)),
                        std::memory_order_release);
}

}  // namespace poptorch::emulator
