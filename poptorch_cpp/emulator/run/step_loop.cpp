// The loop over steps.
#include <cstring>
#include <utility>

#include "emulator/collectives/fold.hpp"
#include "emulator/host/clock.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "emulator/run/runner.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

namespace {

// The number of short steps between two checks for a stop, so that the checks cost nothing in
// loops of such steps.
constexpr int kStepsBetweenLooks = 64;

}  // namespace

void Runner::run_kernel(const Step& step, Machine& machine, int worker) {
  KernelArgs args;
  args.buffers = machine.table.data() + step.buffers;
  args.scratch = scratch_.data() + worker * scratch_stride_;
  args.workspace = machine.table[step.workspace];
  args.random.seed = random_.seed;
  args.random.op_id = step.op_id;
  args.random.replica = static_cast<uint32_t>(machine.replica);
  args.random.micro_batch =
      random_.micro_batch + static_cast<uint64_t>(machine.micro_batch + step.micro_batch_offset);
  args.random.round = machine.round;
  const BoundKernel& kernel = *step.kernel;
  if (step.reference >= 0) {
    const double begin = now();
    kernel.run(args, 0, 0);
    return reference_time_.add(step.reference, now() - begin);
  }
  const int phases = kernel.phases();
  int first = 0;
  if (step.prepared >= 0) {
    int64_t& seen = machine.prepared[static_cast<size_t>(step.prepared)];
    first = std::exchange(seen, store_.version()) == store_.version() ? 1 : 0;
  }
  for (int phase = first; phase < phases; ++phase) {
    if (stop_.load(std::memory_order_relaxed)) return;
    const int tasks = kernel.tasks(phase);
    if (step.inline_only || tasks == 1) {
      for (int task = 0; task < tasks; ++task) kernel.run(args, phase, task);
      continue;
    }
    auto one = [&](int task, int helper) {
      if (!may_go_on(helper)) return;
      KernelArgs own = args;
      own.scratch = scratch_.data() + helper * scratch_stride_;
      kernel.run(own, phase, task);
    };
    share_kernel(step, tasks, one);
  }
}

void Runner::share_kernel(const Step& step, int tasks, TaskRef task) {
  if (!observer_) return pool_.run(tasks, task);
  const std::string* name =
      step.region < 0 ? nullptr : &code_.regions[static_cast<size_t>(step.region)].name;
  HelpedRegion helping(*observer_, listening_.get(), name);
  pool_.run(tasks, task, {}, &helping);
}

Runner::Turn Runner::advance(Machine& machine, int worker) {
  if (!observer_) return advance<false>(machine, worker, nullptr);
  OpenRegions regions(*observer_, code_.regions, machine.name);
  return advance<true>(machine, worker, &regions);
}

template <bool kObserved>
Runner::Turn Runner::advance(Machine& machine, int worker, OpenRegions* regions) {
  const Step* steps = machine.code->steps.data();
  std::byte** table = machine.table.data();
  int32_t at = machine.at;
  auto wait_here = [&] {
    machine.at = at;
    return Turn::kWait;
  };
  int until_look = kStepsBetweenLooks;
  if (machine.fails_after == 0 && at == 0) strike(machine);
  for (;;) {
    if (--until_look < 0) {
      until_look = kStepsBetweenLooks;
      if (!may_go_on(worker)) return Turn::kStop;
    }
    const Step& step = steps[at];
    if (step.lasts) until_look = 0;
    if constexpr (kObserved) regions->move_to(step.region);
    std::byte* const* buffers = table + step.buffers;
    const auto bytes = static_cast<size_t>(step.bytes);
    switch (step.kind) {
      case Step::Kind::kKernel:
        try {
          run_kernel(step, machine, worker);
        } catch (const support::UserError& error) {
          throw support::UserError(error.what() + program::place_of(program_, step.op_id),
                                   error.where());
        }
        break;
      case Step::Kind::kCopy:
        if (buffers[0] != buffers[1]) std::memcpy(buffers[1], buffers[0], bytes);
        break;
      case Step::Kind::kSend: {
        Channel& channel = machine.shared->channels[static_cast<size_t>(step.index)];
        const bool overfill = overfill_.load();
        machine.seen = events_of(machine);
        if (!channel.send(buffers[0], overfill)) return wait_here();
        if (overfill) overfill_.store(false);
        note_event(machine);
        break;
      }
      case Step::Kind::kReceive:
        machine.seen = events_of(machine);
        if (!machine.shared->channels[static_cast<size_t>(step.index)].receive(buffers[0])) {
          return wait_here();
        }
        note_event(machine);
        break;
      case Step::Kind::kSync:
        machine.seen = events_of(machine);
        if (!sync(machine)) return wait_here();
        break;
      case Step::Kind::kBegin:
        begin(step, machine);
        break;
      case Step::Kind::kCollective: {
        machine.seen = events_of(machine);
        const int64_t ticket = machine.begun[static_cast<size_t>(step.index)];
        if (!collective_of(step, machine).is_done(ticket)) return wait_here();
        break;
      }
      case Step::Kind::kStreamIn:
        stream_in(machine.shared->streams[static_cast<size_t>(step.index)], buffers[0]);
        break;
      case Step::Kind::kStreamOut:
        stream_out(machine.shared->streams[static_cast<size_t>(step.index)], buffers[0]);
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
        if (step.count == 0) {
          at = step.target;
          continue;
        }
        machine.rounds_left[static_cast<size_t>(step.index)] = step.count;
        if (step.is_repeat) machine.round *= static_cast<uint64_t>(step.count);
        break;
      case Step::Kind::kLoopEnd:
        if (step.per_micro_batch && ++machine.micro_batch == machine.fails_after) strike(machine);
        machine.micro_batch -= step.rewind;
        if (--machine.rounds_left[static_cast<size_t>(step.index)] > 0) {
          if (step.is_repeat) ++machine.round;
          at = step.target;
          continue;
        }
        if (step.is_repeat) machine.round /= static_cast<uint64_t>(step.count);
        break;
      case Step::Kind::kBranch: {
        bool taken = false;
        for (size_t i = 0; i < bytes; ++i) taken |= buffers[0][i] != std::byte{0};
        if (!taken) {
          at = step.target;
          continue;
        }
        break;
      }
      case Step::Kind::kJump:
        at = step.target;
        continue;
      case Step::Kind::kEnd:
        if (machine.fails_after != Machine::kNever) strike(machine);
        machine.at = at;
        return Turn::kEnd;
    }
    ++at;
  }
}

bool Runner::sync(Machine& machine) {
  Barrier& barrier = machine.shared->sync;
  if (machine.ticket < 0) {
    machine.ticket = barrier.arrive();
    note_event(machine);
  }
  if (!barrier.is_open(machine.ticket)) return false;
  machine.ticket = -1;
  return true;
}

Collective& Runner::collective_of(const Step& step, const Machine& machine) {
  const auto index = static_cast<size_t>(step.index);
  const CollectiveSpec& spec = code_.collectives[index];
  const int group = spec.groups.of(machine.replica);
  return *collectives_[index][static_cast<size_t>(group)];
}

void Runner::begin(const Step& step, Machine& machine) {
  support::meet_fault(support::FaultPoint::kCollective, "run");
  const auto index = static_cast<size_t>(step.index);
  const CollectiveSpec& spec = code_.collectives[index];
  std::byte* const* buffers = machine.table.data() + step.buffers;
  const int rank = spec.groups.rank(machine.replica);
  machine.begun[index] = collective_of(step, machine).arrive(rank, buffers[0], buffers[1]);
  meetings_.fetch_add(1);
  pool_.announce();
}

void Runner::stream_in(StreamEnd& end, std::byte* to) {
  if (end.transfers == end.stream->transfers) {
    throw support::InternalError(str("[engine] stream '", end.stream->host.name,
                                     "' makes more than its ", end.transfers, " transfers."));
  }
  const double begin = now();
  std::memcpy(to, end.data + end.first + end.transfers * end.step, static_cast<size_t>(end.bytes));
  end.times[static_cast<size_t>(end.transfers++)] = {begin, now()};
}

void Runner::stream_out(StreamEnd& end, const std::byte* from) {
  const program::Stream& stream = *end.stream;
  const int64_t transfer = end.transfers++;
  const double begin = now();
  int64_t kept = 0;
  switch (stream.keep) {
    case program::Keep::kAll:
      kept = transfer;
      break;
    case program::Keep::kEveryN:
      if ((transfer + 1) % stream.period != 0) return;
      kept = transfer / stream.period;
      break;
    case program::Keep::kFinal:
      break;
    case program::Keep::kSum:
      if (transfer > 0) {
        std::byte* sum = end.data + end.first;
        reduce_ranks(stream.host.type.dtype, Reduction::kSum, {sum, from}, sum,
                     stream.host.type.elements());
        end.times[0].second = now();
        return;
      }
      break;
  }
  std::memcpy(end.data + end.first + kept * end.step, from, static_cast<size_t>(end.bytes));
  end.times[static_cast<size_t>(kept)] = {begin, now()};
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
  const ir::RemoteBuffer& remote = program_.remote_buffers[static_cast<size_t>(buffer)];
  if (entry < 0 || entry >= remote.entries) {
    throw support::UserError(str("[remote buffer] row ", entry, " of '", remote.name,
                                 "' is out of range: it has ", remote.entries, " rows."));
  }
  const auto here = static_cast<size_t>(replica - options_.share.first(program_.replicas));
  return replicas_[here].remote[static_cast<size_t>(buffer)].data() + entry * remote.type.bytes();
}

std::byte* Runner::stash(const Step& step, Machine& machine) {
  const int64_t depth = program_.stashes[static_cast<size_t>(step.index)].depth;
  const int64_t slot = (machine.micro_batch + step.micro_batch_offset) % depth;
  return machine.stashes[static_cast<size_t>(step.index)].data() +
         (slot < 0 ? slot + depth : slot) * step.bytes;
}

}  // namespace poptorch::emulator
