// Numbers the attempts of a program's instances to run it or to exchange state. Carries the notices
// by which one instance ends an attempt for all. docs/many-processes.md has the protocol.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/bound/share.hpp"
#include "emulator/transport/tag.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

// Returns the time in seconds by which waits for other instances are measured: now(), or the clock
// that a test sets while nobody waits ({} restores now()).
double wait_time();
void set_wait_clock(std::function<double()> clock);

// Is equal in all instances: runs count from 1, and so do the exchanges after each run. An attempt
// keeps its number when it fails; the next one has the next number.
struct Attempt {
  int64_t run = 0, exchange = 0;
  auto operator<=>(const Attempt&) const = default;
};

// Not thread-safe.
class Attempts {
 public:
  // Requires a fabric. `about` is the tag of notices, which belongs to no run.
  Attempts(const Share& share, const Tag& about);

  const Attempt& current() const { return current_; }
  void begin_run() { begin({current_.run + 1, 0}); }
  void begin_exchange() { begin({current_.run, current_.exchange + 1}); }

  // Ends the current attempt here and notifies the others. Blocks until the fabric has room or
  // wait_time() exceeds `until`; an unsent notice is sent in the next attempt.
  void abort(std::string_view why, double until);

  struct Abort {
    int instance = 0;
    std::string reason;
  };
  // Returns the abort of another instance that ends the current attempt: one of this attempt, or
  // of the previous one if it succeeded here. Drops notices of earlier attempts.
  std::optional<Abort> next_abort();
  // Returns whether `other` has aborted an attempt after the current one, so that it does not take
  // part in this one.
  bool is_past(int other) const;

 private:
  struct Notice {
    Attempt attempt;
    std::array<char, 400> reason = {};  // ends with zeros
  };
  struct Peer {
    std::deque<Notice> heard = {};
    bool is_owed = false;  // the fabric lacked room for own_, so it must be sent later
  };

  void begin(const Attempt& next);
  bool send_owed();
  bool is_late(const Attempt& attempt) const;

  Share share_;
  Tag about_;
  Attempt current_;
  bool has_aborted_ = false;          // whether this instance has ended the current attempt
  std::optional<Attempt> succeeded_;  // the previous attempt, if it succeeded here
  Notice own_;                        // the last notice sent
  support::Table<int, Peer> peers_;
};

}  // namespace poptorch::emulator
