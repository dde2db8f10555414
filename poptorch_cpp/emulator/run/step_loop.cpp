// The loop over steps.
#include <cstring>

#include "emulator/run/runner.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

namespace {

// The number of short steps between two checks for a stop, so that the checks cost nothing in
// loops of such steps.
constexpr int kStepsBetweenLooks = 64;

// Moves `bytes` from one address to another, which may be the same.
inline void copy(const Step& step, std::byte* const* buffers) {
  if (buffers[0] == buffers[1]) return;
  std::memcpy(buffers[1], buffers[0], static_cast<size_t>(step.bytes));
}

// Returns whether the step jumps because its condition, which is all bytes of `data`, is zero.
inline bool is_zero(const Step& step, const std::byte* data) {
  bool any = false;
  for (int64_t i = 0; i < step.bytes; ++i) any |= data[i] != std::byte{0};
  return !any;
}

// Returns whether the loop runs at all.
inline bool begin_loop(const Step& step, Machine& machine) {
  if (step.count == 0) return false;
  machine.rounds_left[step.index] = step.count;
  if (step.is_repeat) machine.round *= static_cast<uint64_t>(step.count);
  return true;
}

inline StreamEnd& stream_of(const Step& step, Machine& machine) {
  return machine.shared->streams[step.index];
}

inline Channel& channel_of(const Step& step, Machine& machine) {
  return machine.shared->channels[step.index];
}

}  // namespace

Runner::Turn Runner::advance(Machine& machine, int worker) {
  if (!observer_) return advance<false>(machine, worker, nullptr);
  OpenRegions regions(*observer_, code_.regions, machine.name);
  return advance<true>(machine, worker, &regions);
}

template <bool kObserved>
Runner::Turn Runner::advance(Machine& machine, int worker, OpenRegions* regions) {
  const Step* steps = machine.code->steps.data();
  std::byte* const* table = machine.table.data();
  int32_t at = machine.at;
  int until_look = kStepsBetweenLooks;
  if (machine.fails_after == 0 && at == 0) strike(machine, worker);
  for (;;) {
    if (--until_look < 0) {
      until_look = kStepsBetweenLooks;
      if (!stop_.may_continue(worker)) return Turn::kStop;
    }
    const Step& step = steps[at];
    if (step.lasts) until_look = 0;
    if constexpr (kObserved) regions->move_to(step.region);
    switch (execute(step, machine, table + step.buffers, worker)) {
      case Flow::kNext:
        ++at;
        break;
      case Flow::kJump:
        at = step.target;
        break;
      case Flow::kWait:
        machine.at = at;
        return Turn::kWait;
      case Flow::kEnd:
        machine.at = at;
        return Turn::kEnd;
    }
  }
}

// Always inline: it is called for every step.
[[gnu::always_inline]] inline Runner::Flow Runner::execute(const Step& step, Machine& machine,
                                                           std::byte* const* buffers, int worker) {
  const auto bytes = static_cast<size_t>(step.bytes);
  switch (step.kind) {
    case Step::Kind::kKernel:
      run_kernel(step, machine, worker);
      break;
    case Step::Kind::kCopy:
      copy(step, buffers);
      break;
    case Step::Kind::kSend:
      return send(step, machine, buffers[0]);
    case Step::Kind::kReceive:
      return receive(step, machine, buffers[0]);
    case Step::Kind::kSync:
      return sync(machine);
    case Step::Kind::kBegin:
      return begin(step, machine, buffers);
    case Step::Kind::kCollective:
      return wait_for_collective(step, machine);
    case Step::Kind::kStreamIn:
      stream_of(step, machine).take(buffers[0]);
      break;
    case Step::Kind::kStreamOut:
      stream_of(step, machine).put(buffers[0]);
      break;
    case Step::Kind::kLoad:
      std::memcpy(buffers[0], row(step, machine), bytes);
      break;
    case Step::Kind::kStore:
      std::memcpy(row(step, machine), buffers[0], bytes);
      break;
    case Step::Kind::kStash:
      std::memcpy(stash(step, machine), buffers[0], bytes);
      break;
    case Step::Kind::kRestore:
      std::memcpy(buffers[0], stash(step, machine), bytes);
      break;
    case Step::Kind::kLoopBegin:
      return begin_loop(step, machine) ? Flow::kNext : Flow::kJump;
    case Step::Kind::kLoopEnd:
      return end_loop(step, machine, worker);
    case Step::Kind::kBranch:
      return is_zero(step, buffers[0]) ? Flow::kJump : Flow::kNext;
    case Step::Kind::kJump:
      return Flow::kJump;
    case Step::Kind::kEnd:
      return end(machine, worker);
  }
  return Flow::kNext;
}

inline Runner::Flow Runner::send(const Step& step, Machine& machine, const std::byte* data) {
  const bool overfill = queue_.may_overfill();
  machine.seen = queue_.events_of(machine);
  if (!channel_of(step, machine).send(data, overfill)) return Flow::kWait;
  if (overfill) queue_.end_overfill();
  queue_.note_event(machine);
  return Flow::kNext;
}

inline Runner::Flow Runner::receive(const Step& step, Machine& machine, std::byte* into) {
  machine.seen = queue_.events_of(machine);
  if (!channel_of(step, machine).receive(into)) return Flow::kWait;
  queue_.note_event(machine);
  return Flow::kNext;
}

inline Runner::Flow Runner::sync(Machine& machine) {
  machine.seen = queue_.events_of(machine);
  Barrier& barrier = machine.shared->sync;
  if (machine.ticket < 0) {
    machine.ticket = barrier.arrive();
    queue_.note_event(machine);
  }
  if (!barrier.is_open(machine.ticket)) return Flow::kWait;
  machine.ticket = -1;
  return Flow::kNext;
}

Collective& Runner::collective_of(const Step& step, const Machine& machine) {
  const auto index = static_cast<size_t>(step.index);
  const CollectiveSpec& spec = code_.collectives[index];
  const int group = spec.groups.of(machine.replica);
  return *collectives_[index][group];
}

inline Runner::Flow Runner::begin(const Step& step, Machine& machine, std::byte* const* buffers) {
  support::meet_fault(support::FaultPoint::kCollective, "run");
  const auto index = static_cast<size_t>(step.index);
  const int rank = code_.collectives[index].groups.rank(machine.replica);
  machine.begun[index] = collective_of(step, machine).arrive(rank, buffers[0], buffers[1]);
  queue_.note_meeting();
  return Flow::kNext;
}

inline Runner::Flow Runner::wait_for_collective(const Step& step, Machine& machine) {
  machine.seen = queue_.events_of(machine);
  const int64_t ticket = machine.begun[step.index];
  return collective_of(step, machine).is_done(ticket) ? Flow::kNext : Flow::kWait;
}

inline Runner::Flow Runner::end_loop(const Step& step, Machine& machine, int worker) {
  if (step.per_micro_batch && ++machine.micro_batch == machine.fails_after) strike(machine, worker);
  machine.micro_batch -= step.rewind;
  if (--machine.rounds_left[step.index] > 0) {
    if (step.is_repeat) ++machine.round;
    return Flow::kJump;
  }
  if (step.is_repeat) machine.round /= static_cast<uint64_t>(step.count);
  return Flow::kNext;
}

inline Runner::Flow Runner::end(Machine& machine, int worker) {
  if (machine.fails_after != Machine::kNever) strike(machine, worker);
  return Flow::kEnd;
}

std::byte* Runner::row(const Step& step, Machine& machine) {
  int64_t entry = step.count;
  if (step.has_row) {
    int32_t given = 0;
    std::memcpy(&given, machine.table[step.buffers + 1], sizeof given);
    entry = given;
  }
  return remote_row(step.index, machine.replica, entry);
}

std::byte* Runner::remote_row(int buffer, int replica, int64_t entry) {
  const ir::RemoteBuffer& remote = program_.remote_buffers[buffer];
  if (entry < 0 || entry >= remote.entries) {
    throw support::UserError(str("[remote buffer] row ", entry, " of '", remote.name,
                                 "' is out of range: it has ", remote.entries, " rows."));
  }
  const auto here = static_cast<size_t>(replica - options_.share.first(program_.replicas));
  return replicas_[here].remote[buffer].data() + entry * remote.type.bytes();
}

std::byte* Runner::stash(const Step& step, Machine& machine) {
  const int64_t depth = program_.stashes[step.index].depth;
  const int64_t slot = (machine.micro_batch + step.micro_batch_offset) % depth;
  return machine.stashes[step.index].data() + (slot < 0 ? slot + depth : slot) * step.bytes;
}

}  // namespace poptorch::emulator
