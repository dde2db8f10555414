// Decides which machine runs next. A machine that could not continue is taken again only after an
// event that concerns it. The order in which machines run never changes a value.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "emulator/run/machine.hpp"

namespace poptorch::emulator {

class Pool;  // host/pool.hpp

// Thread-safe, except for begin_run().
class MachineQueue {
 public:
  // Events are announced to `pool`. `awaits_peers` returns whether other instances may cause an
  // event. `refuse` is called for each machine if all of them wait for ever; it may throw an error
  // that names the reason.
  MachineQueue(Pool& pool, std::function<bool()> awaits_peers,
               std::function<void(const Machine&)> refuse);

  // Begins a run of these machines.
  void begin_run(std::deque<Machine>& machines);
  // Returns a machine that can continue, which the caller then holds: preferably one that this
  // worker ran last or that no worker has run. Otherwise returns the first in order, if
  // `take_others`. Returns nullptr if there is none. Throws an error if no event can come any more.
  Machine* take(int worker, bool take_others);
  void give_back(Machine* machine, bool has_ended);
  // Returns whether all machines have ended, or the run was cancelled.
  bool is_done() const;
  void cancel();

  // Counts the events after which the machine may be able to continue.
  int64_t events_of(const Machine& machine) const {
    return machine.shared->events.load() + meetings_.load();
  }
  // Note an event that concerns the machines of one replica, or those of all.
  void note_event(Machine& machine);
  void note_meeting();

  // Returns whether no machine could continue, so that a full channel may grow. The first that does
  // calls end_overfill().
  bool may_overfill() const { return overfill_.load(); }
  void end_overfill() { overfill_.store(false); }

 private:
  void break_stall();

  Pool& pool_;
  const std::function<bool()> awaits_peers_;
  const std::function<void(const Machine&)> refuse_;
  std::atomic<int64_t> meetings_{0};  // counts arrivals at collectives, and completed ones
  std::atomic<bool> overfill_{false};

  mutable std::mutex mutex_;
  std::deque<Machine>* all_ = nullptr;
  std::deque<Machine*> waiting_;  // machines that no thread holds, in scheduling order
  int running_ = 0;
  int unfinished_ = 0;
  int64_t stalled_at_ = -1;  // number of all events when overfill_ was last set
};

}  // namespace poptorch::emulator
