// Schedules machines on threads, and handles runs that end early.
#include <algorithm>

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
    remote_.begin_run();
  }
  random_ = random;
  RunState::Run run(state_);
  if (run.follows_partial()) forget_partial_run();
  stop_.begin_run();
  observer_ = support::region_observer();
  observer_context_ = observer_ ? observer_->context() : nullptr;
  for (Replica& replica : replicas_) {
    for (StreamEnd& end : replica.streams) {
      const auto buffer = static_cast<size_t>(end.host_buffer);
      end.begin_run(end.stream->host.to_device ? const_cast<std::byte*>(inputs[buffer])
                                               : outputs[buffer]);
    }
  }
  for (Machine& machine : machines_) machine.begin_run();
  arm_machines();
  const double begin = reference_time_.empty() ? 0 : now();
  int lanes = 0;
  run_with_peers([&] {
    lanes = run_machines();
    if (stop_.is_set()) throw support::Interrupted();
  });
  if (!reference_time_.empty()) reference_time_.finish_run(now() - begin, lanes);
  observer_context_ = nullptr;  // a profiler's records may be large
  run.complete();
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
  machines_[fault_->ipu % here].fails_after = fault_->micro_batch;
}

// Triggers the fault of this run. Returns only if the fault is a signal; its handler has run then,
// and worker 0 asks the watch before the run can end.
void Runner::strike(Machine& machine, int worker) {
  machine.fails_after = Machine::kNever;
  if (!fault_->is_of_device()) {
    support::send_signal(*fault_);
    stop_.ask(worker);
    return;
  }
  support::DeviceError error = support::error_of(*fault_, str("IPU ", fault_->ipu));
  error.add_frame(
      str("IPU ", fault_->ipu, ", which had finished ", machine.micro_batch, " micro-batches"));
  throw error;
}

int Runner::run_machines() {
  if (machines_.size() == 1 && !peers_) {
    advance(machines_.front(), 0);
    return 1;
  }
  queue_.begin_run(machines_);
  const int lanes = std::min(pool_.threads(), static_cast<int>(machines_.size()));
  if (lanes == 1 || !options_.concurrent_machines) {
    run_all(0, true);
    return 1;
  }
  auto lane = [&](int, int worker) { run_all(worker, false); };
  const auto meanwhile = [&] { stop_.may_continue(0); };
  if (!observer_) {
    pool_.run(lanes, lane, meanwhile);
  } else {
    HelpedRegion region(*observer_, observer_context_.get(), nullptr);
    pool_.run(lanes, lane, meanwhile, &region);
  }
  return lanes;
}

// Resets what an interrupted run left incomplete: tensors in channels, barriers and collectives,
// sums of gradients and packed weights.
void Runner::forget_partial_run() {
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

// Raises UserError if the machine waits at a collective.
void Runner::refuse_lonely(const Machine& machine) const {
  const Step& step = machine.code->steps[machine.at];
  if (step.kind != Step::Kind::kCollective) return;
  throw support::UserError(support::str(
      "[replicas] replica ", machine.replica, " waits at ",
      name_of(code_.collectives[step.index].kind), program::place_of(program_, step.op_id),
      " for replicas of its group that never reach it. All replicas of the group must take the "
      "same branch around it."));
}

// Runs a machine that can continue, until it cannot any more or the run is stopped.
bool Runner::run_next(int worker, bool alone) {
  Machine* machine = queue_.take(worker, alone);
  if (!machine && !alone) {
    // The worker that last ran a machine has its memory in cache, and may be about to take it.
    pool_.pause();
    machine = queue_.take(worker, true);
  }
  if (!machine) return false;
  const Turn turn = advance(*machine, worker);
  if (turn == Turn::kStop) return true;
  if (peers_) peers_->note_progress();  // restarts the timeout of the next wait
  queue_.give_back(machine, turn == Turn::kEnd);
  pool_.announce();  // the returned machine may be able to continue by now
  return true;
}

void Runner::run_all(int worker, bool alone) {
  // Checks before every turn: a turn may be too short for advance() to check.
  while (stop_.may_continue(worker)) {
    const uint32_t signal = pool_.signal();
    try {
      if (run_next(worker, alone)) continue;
      if (queue_.is_done()) return;
      if (remote_.are_under_way()) {
        wait_for_peers(worker, signal, alone);
      } else if (!alone) {
        pool_.idle(signal);
      }
    } catch (...) {
      leave_all();
      throw;
    }
  }
  leave_all();
}

// Stops the run: removes all machines, and wakes idle workers so that they leave, too.
void Runner::leave_all() {
  stop_.set();
  queue_.cancel();
  pool_.announce();
}

}  // namespace poptorch::emulator
