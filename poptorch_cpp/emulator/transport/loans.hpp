// Long messages over a wire (memory of one host is lent by lending.hpp) that nobody copies: each
// goes by itself, from the memory where it is to where it is wanted, as soon as both are known.
// What the two ends say about it goes in frames.
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

// Thread-safe. The other end has one too; whoever fetches is the borrower.
class Loans {
 public:
  // What one end says to the other about the borrower's fetch of that number.
  struct Note {
    enum Kind : uint32_t { kWants, kComes, kWantsNoMore, kComesNoMore };
    Kind kind = kWants;
    uint32_t number = 0;
    Tag tag = {};  // if wanted
    int64_t bytes = 0;
  };

  // `bell` is rung for those that are over; `failed` is told why there can be no more.
  Loans(Wire& wire, Bell& bell, std::function<void(const std::string&)> failed);
  ~Loans() { close(); }

  // As those of Fabric. Numbers are not 0.
  int64_t lend(const Tag& tag, const std::byte* data, int64_t bytes);
  int64_t fetch(const Tag& tag, std::byte* into, int64_t bytes);
  bool is_over(int64_t number) const;  // of one's own
  bool has_any() const { return open_ > 0 && !is_closing_; }
  // Those of a program that has failed end as soon as they can; whether all have.
  bool take_back(uint32_t program);
  // Ends all of them, and the thread. Nothing is read or written any more.
  void close();

  // What the other one has said; false: that cannot be. Raises a std::exception where the two do
  // not agree, or the wire carries no more.
  bool hear(const Note& note);
  // What it must be told next; false: nothing.
  bool say(Note& note);
  bool has_notes() const { return unsaid_ > 0; }

 private:
  using Transfer = std::unique_ptr<Wire::Transfer>;
  struct Lent {
    uint32_t number = 0;
    const std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  struct Fetch {
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
  Bell& bell_;
  const std::function<void(const std::string&)> failed_;
  std::mutex closing_;
  mutable std::mutex mutex_;
  std::condition_variable posted_;
  // What waits for the other end: lent, and what that one wants, both in their order.
  std::map<Tag, std::deque<Lent>> lent_;
  std::map<Tag, std::deque<Note>> wanted_;
  std::map<uint32_t, Fetch> fetches_;
  // Both ends know of these: they need but the wire to come through.
  std::deque<UnderWay> under_way_;
  std::unordered_set<uint32_t> alive_;  // own ones that are not over
  std::deque<Note> notes_;
  std::atomic<int> open_{0}, unsaid_{0};  // how many are alive, and notes
  uint32_t last_ = 0;
  std::atomic<bool> is_closing_{false};
  std::thread carrier_;
};

}  // namespace poptorch::emulator
