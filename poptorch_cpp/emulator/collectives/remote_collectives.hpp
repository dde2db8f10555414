// Lists the collectives of a program that reach other instances, and counts those that wait.
#pragma once

#include <atomic>
#include <vector>

#include "emulator/collectives/remote_collective.hpp"

namespace poptorch::emulator {

class RemoteCollectives {
 public:
  void add(RemoteCollective& collective);
  // Begins a run, in which no collective waits yet.
  void begin_run();
  // Is called by a collective that begins to wait for other instances. Thread-safe.
  void note_begin() { under_way_.fetch_add(1); }
  // Returns whether a collective waits for other instances. Thread-safe.
  bool are_under_way() const { return under_way_.load() > 0; }
  // Advances the collectives under way. Returns whether one has completed. If so, calls `announce`
  // before they no longer count as under way. One thread at a time may call it.
  template <typename Announce>
  bool poll(Announce announce) {
    int completed = 0;
    for (RemoteCollective* one : all_) completed += one->is_under_way() && one->poll() ? 1 : 0;
    if (completed == 0) return false;
    announce();
    under_way_.fetch_sub(completed);
    return true;
  }
  // Returns a collective under way, or nullptr.
  RemoteCollective* first_under_way() const;

 private:
  std::vector<RemoteCollective*> all_;
  std::atomic<int> under_way_{0};
};

}  // namespace poptorch::emulator
