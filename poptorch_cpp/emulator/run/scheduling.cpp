// Schedules machines on threads, and handles runs that end early.
#include <algorithm>
#include <utility>

#include "emulator/host/clock.hpp"
#include "emulator/run/runner.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

void Runner::run(const std::vector<const std::byte*>& inputs,
                 const std::vector<std::byte*>& outputs, const RandomState& random) {
  if (peers_) {
    peers_->begin_run();
    for (FarCollective* far : far_) far->begin_run();
  }
  random_ = random;
  if (std::exchange(failed_, true)) forget_failed_run();
  watch_ = support::Watch::current();
  stop_ = told_ = false;
  observer_ = support::region_observer();
  listening_ = observer_ ? observer_->context() : nullptr;
  for (Replica& replica : replicas_) {
    for (StreamEnd& end : replica.streams) {
      const auto buffer = static_cast<size_t>(end.host_buffer);
      end.transfers = 0;
      end.data =
          end.stream->host.to_device ? const_cast<std::byte*>(inputs[buffer]) : outputs[buffer];
    }
  }
  for (Machine& machine : machines_) {
    machine.at = 0;
    machine.micro_batch = 0;
    machine.round = 0;
    machine.ticket = machine.seen = -1;
  }
  arm_machines();
  const double begin = reference_time_.empty() ? 0 : now();
  int lanes = 0;
  run_with_peers([&] {
    lanes = run_machines();
    if (stop_) throw support::Interrupted();
  });
  if (!reference_time_.empty()) reference_time_.finish_run(now() - begin, lanes);
  listening_ = nullptr;  // a profiler's records may be large
  failed_ = false;
}

void Runner::arm_machines() {
  for (Machine& machine : machines_) machine.fails_after = Machine::kNever;
  fault_ = support::due_fault(support::FaultPoint::kRun);
  if (!fault_) return;
  const Share& share = options_.share;
  const auto here = static_cast<int64_t>(machines_.size());
  if (fault_->ipu >= here * share.instances) {
    throw support::UserError(str("[faults] '", fault_->text, "': there is no IPU ", fault_->ipu,
                                 ", the program has ", here * share.instances,
                                 " in all replicas."));
  }
  if (fault_->ipu / here != share.instance) return;
  machines_[static_cast<size_t>(fault_->ipu % here)].fails_after = fault_->micro_batch;
}

// Triggers the fault of this run. Returns only if the fault is a signal, which may stop the run
// later.
void Runner::strike(Machine& machine) {
  machine.fails_after = Machine::kNever;
  if (!fault_->is_of_device()) {
    support::send_signal(*fault_);
    if (watch_) watch_->hasten();  // the watch of the thread that called run()
    return;
  }
  support::DeviceError error = support::error_of(*fault_, str("IPU ", fault_->ipu));
  error.add_frame(
      str("IPU ", fault_->ipu, ", which had done ", machine.micro_batch, " micro-batches"));
  throw error;
}

int Runner::run_machines() {
  if (machines_.size() == 1 && !peers_) {
    advance(machines_.front(), 0);
    return 1;
  }
  waiting_.clear();
  for (Machine& machine : machines_) waiting_.push_back(&machine);
  unfinished_ = static_cast<int>(machines_.size());
  running_ = 0;
  stalled_at_ = -1;
  overfill_ = false;
  const int lanes = std::min(pool_.threads(), static_cast<int>(machines_.size()));
  if (lanes == 1 || !options_.concurrent_machines) {
    run_all(0, true);
    return 1;
  }
  auto lane = [&](int, int worker) { run_all(worker, false); };
  const auto meanwhile = [&] { may_go_on(0); };
  if (!observer_) {
    pool_.run(lanes, lane, meanwhile);
  } else {
    HelpedRegion helping(*observer_, listening_.get(), nullptr);
    pool_.run(lanes, lane, meanwhile, &helping);
  }
  return lanes;
}

// Resets what a failed run left incomplete: tensors in channels, barriers and collectives, sums of
// gradients and packed weights.
void Runner::forget_failed_run() {
  store_.restart_accumulators();
  for (Machine& machine : machines_) {
    std::fill(machine.prepared.begin(), machine.prepared.end(), -1);
  }
  for (Replica& replica : replicas_) {
    for (Channel& channel : replica.channels) channel.clear();
    replica.sync.clear();
  }
  for (auto& groups : collectives_) {
    for (auto& collective : groups) {
      if (collective) collective->clear();
    }
  }
}

int64_t Runner::events_of(const Machine& machine) const {
  return machine.shared->events.load() + meetings_.load();
}

void Runner::note_event(Machine& machine) {
  machine.shared->events.fetch_add(1);
  pool_.announce();
}

// Returns a machine that can continue: preferably one that this worker ran last or that no worker
// has run. Otherwise returns the first in order, if `take_others`.
Machine* Runner::next_machine(int worker, bool take_others) {
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

// Raises UserError if the machine waits at a collective.
void Runner::refuse_lonely(const Machine& machine) const {
  const Step& step = machine.code->steps[static_cast<size_t>(machine.at)];
  if (step.kind != Step::Kind::kCollective) return;
  throw support::UserError(
      support::str("[replicas] replica ", machine.replica, " waits at ",
                   name_of(code_.collectives[static_cast<size_t>(step.index)].kind),
                   program::place_of(program_, step.op_id),
                   " for replicas of its group that do not come to it. All of them must take the "
                   "same branch around it."));
}

// Lets one full channel grow, because every machine waits. Raises an error if nothing has happened
// since the last call and nothing can come from peers.
void Runner::break_stall() {
  const bool may_come = waits_for_peers();  // read first: a collective's event precedes its end
  int64_t events = meetings_.load();
  for (const Replica& replica : replicas_) events += replica.events.load();
  if (stalled_at_ == events && may_come) return;
  pool_.announce();  // idle workers must look again, or find that nothing is left
  if (stalled_at_ == events) {
    unfinished_ = 0;
    for (const Machine* machine : waiting_) refuse_lonely(*machine);
    throw support::InternalError("[engine] the IPUs wait for each other for ever.");
  }
  stalled_at_ = events;
  overfill_ = true;
  for (Machine* machine : waiting_) machine->seen = -1;
}

void Runner::give_back(Machine* machine, bool finished) {
  std::lock_guard lock(mutex_);
  --running_;
  if (finished) {
    --unfinished_;
  } else {
    waiting_.push_back(machine);
  }
}

// Takes some nanoseconds, except when the watch is due, which is rare.
bool Runner::may_go_on(int worker) {
  if (stop_.load(std::memory_order_relaxed)) return false;
  if (!watch_) return true;
  const bool due = watch_->is_due();
  if (worker == 0) {
    if (due || told_.load(std::memory_order_relaxed)) {
      told_ = false;
      if (watch_->wants_stop()) stop_ = true;
    }
  } else if (due) {
    told_ = true;
    pool_.announce();
  }
  return !stop_.load(std::memory_order_relaxed);
}

void Runner::run_all(int worker, bool alone) {
  while (true) {
    // Checks before every turn: a turn may be too short for advance() to check.
    if (!may_go_on(worker)) return leave_all();
    const uint32_t signal = pool_.signal();
    Machine* machine = next_machine(worker, alone);
    if (!machine && !alone) {
      // The worker that last ran a machine has its memory in cache, and may be about to take it.
      pool_.pause();
      machine = next_machine(worker, true);
    }
    if (machine) {
      try {
        const Turn turn = advance(*machine, worker);
        if (turn == Turn::kStop) return leave_all();
        if (peers_) peers_->note_progress();  // restarts the timeout of the next wait
        give_back(machine, turn == Turn::kEnd);
      } catch (...) {
        leave_all();
        throw;
      }
      pool_.announce();  // the returned machine may be able to continue by now
      continue;
    }
    {
      std::lock_guard lock(mutex_);
      if (unfinished_ <= 0) return;
    }
    if (waits_for_peers()) {
      wait_for_peers(worker, signal, alone);
    } else if (!alone) {
      pool_.idle(signal);
    }
  }
}

// Stops the run: removes all machines, and wakes idle workers so that they leave, too.
void Runner::leave_all() {
  stop_ = true;
  {
    std::lock_guard lock(mutex_);
    unfinished_ = 0;
    waiting_.clear();
  }
  pool_.announce();
}

}  // namespace poptorch::emulator
