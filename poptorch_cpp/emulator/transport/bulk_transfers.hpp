// Carries long messages over a wire by zero-copy transfer; shared_pages.hpp shares memory within a
// host. offer() publishes a buffer, request() asks for one. Once both are known, the bytes go
// straight from one buffer to the other. The notes of both ends about it go in frames.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>

#include "emulator/transport/fabric.hpp"
#include "emulator/transport/wire.hpp"

namespace poptorch::emulator {

// Thread-safe. The other end has one, too; the end that requests is the receiver.
class BulkTransfers {
 public:
  // Carries a message of one end to the other about the receiver's request of that number.
  struct Note {
    enum Kind : uint32_t { kWants, kComes, kWantsNoMore, kComesNoMore };
    Kind kind = kWants;
    uint32_t number = 0;
    Tag tag = {};  // of kWants and kWantsNoMore
    int64_t bytes = 0;
  };

  // Notifies `events` when a transfer is over. Calls `failed` with the reason why no more can
  // follow.
  BulkTransfers(Wire& wire, EventCount& events, std::function<void(const std::string&)> failed);
  ~BulkTransfers() { close(); }

  // These work as those of Fabric. Numbers are not 0.
  int64_t offer(const Tag& tag, const std::byte* data, int64_t bytes);
  int64_t request(const Tag& tag, std::byte* into, int64_t bytes);
  bool is_over(int64_t number) const;  // `number`: from this end
  bool has_any() const { return open_ > 0 && !is_closing_; }
  // Ends the transfers of a failed program as soon as possible; returns whether all have ended.
  bool withdraw(uint32_t program);
  // Ends all transfers, and the thread. Nothing is read or written any more.
  void close();

  // Handles a note of the other end; false: the note is invalid. Raises a std::exception where the
  // two ends do not agree, or the wire carries no more.
  bool hear(const Note& note);
  // Gets the next note for the other end; false: there is none.
  bool say(Note& note);
  bool has_notes() const { return unsaid_ > 0; }

 private:
  using Transfer = std::unique_ptr<Wire::Transfer>;
  struct Offer {
    uint32_t number = 0;
    const std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  struct Request {
    Tag tag;
    Transfer transfer;
    bool is_cancelled = false;
  };
  struct UnderWay {
    uint32_t number = 0;
    Transfer transfer;
  };

  uint32_t open();
  void note(const Note& note);
  void match(const Tag& tag);
  void carry(uint32_t number, Transfer transfer);
  void end(uint32_t number);
  void wait_for_transfers();

  Wire& wire_;
  EventCount& events_;
  const std::function<void(const std::string&)> failed_;
  std::mutex closing_;
  mutable std::mutex mutex_;
  std::condition_variable posted_;
  // These wait for a match: buffers that this end offers, and requests of the other, in their
  // order.
  std::map<Tag, std::deque<Offer>> offers_;
  std::map<Tag, std::deque<Note>> wanted_;
  std::map<uint32_t, Request> requests_;
  // Both ends know these transfers, which wait only for the wire.
  std::deque<UnderWay> under_way_;
  std::unordered_set<uint32_t> alive_;  // this end's that are not over
  std::deque<Note> notes_;
  std::atomic<int> open_{0}, unsaid_{0};  // sizes of alive_ and notes_
  uint32_t last_ = 0;
  std::atomic<bool> is_closing_{false};
  std::thread carrier_;
};

}  // namespace poptorch::emulator
