#include "emulator/run/machine_queue.hpp"

#include <utility>

#include "emulator/host/pool.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {

MachineQueue::MachineQueue(Pool& pool, std::function<bool()> awaits_peers,
                           std::function<void(const Machine&)> refuse)
    : pool_(pool), awaits_peers_(std::move(awaits_peers)), refuse_(std::move(refuse)) {}

void MachineQueue::begin_run(std::deque<Machine>& machines) {
  all_ = &machines;
  waiting_.clear();
  for (Machine& machine : machines) waiting_.push_back(&machine);
  unfinished_ = static_cast<int>(machines.size());
  running_ = 0;
  stalled_at_ = -1;
  overfill_ = false;
}

void MachineQueue::note_event(Machine& machine) {
  machine.shared->events.fetch_add(1);
  pool_.announce();
}

void MachineQueue::note_meeting() {
  meetings_.fetch_add(1);
  pool_.announce();
}

Machine* MachineQueue::take(int worker, bool take_others) {
  std::lock_guard lock(mutex_);
  if (unfinished_ <= 0) return nullptr;
  auto found = waiting_.end();
  bool can_go_on = false;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if ((*it)->seen == events_of(**it)) continue;
    const bool own = (*it)->worker == worker || (*it)->worker < 0;
    can_go_on = true;
    if (own || (take_others && found == waiting_.end())) found = it;
    if (own) break;
  }
  if (found == waiting_.end()) {
    if (running_ == 0 && !can_go_on) break_stall();
    return nullptr;
  }
  Machine* machine = *found;
  waiting_.erase(found);
  machine->worker = worker;
  ++running_;
  return machine;
}

void MachineQueue::give_back(Machine* machine, bool has_ended) {
  std::lock_guard lock(mutex_);
  --running_;
  if (has_ended) {
    --unfinished_;
  } else {
    waiting_.push_back(machine);
  }
}

bool MachineQueue::is_done() const {
  std::lock_guard lock(mutex_);
  return unfinished_ <= 0;
}

void MachineQueue::cancel() {
  std::lock_guard lock(mutex_);
  unfinished_ = 0;
  waiting_.clear();
}

// Requires `mutex_`. Lets one full channel grow, because every machine waits. Raises an error if
// nothing has happened since the last call and nothing can come from peers.
void MachineQueue::break_stall() {
  const bool may_come = awaits_peers_();  // read first: a collective's event precedes its end
  int64_t events = meetings_.load();
  for (const Machine& machine : *all_) events += machine.shared->events.load();
  if (stalled_at_ == events && may_come) return;
  pool_.announce();  // idle workers must look again, or find that nothing is left
  if (stalled_at_ == events) {
    unfinished_ = 0;
    for (const Machine* machine : waiting_) refuse_(*machine);
    throw support::InternalError("[engine] the IPUs wait for each other for ever.");
  }
  stalled_at_ = events;
  overfill_ = true;
  for (Machine* machine : waiting_) machine->seen = -1;
}

}  // namespace poptorch::emulator
