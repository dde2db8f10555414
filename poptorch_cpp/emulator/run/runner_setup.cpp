// Makes the objects of a runner: replicas, machines with their tables, streams, collectives.
#include <algorithm>
#include <cstring>

#include "emulator/run/runner.hpp"
#include "program/replica_groups.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::str;

Runner::Runner(const Code& code, StateStore& store, RunState& state, const EngineOptions& options)
    : code_(code),
      program_(*code.program),
      store_(store),
      state_(state),
      options_(options),
      pool_(options.threads),
      reference_time_(code.reference_ops),
      queue_(
          pool_, [this] { return remote_.are_under_way(); },
          [this](const Machine& machine) { refuse_lonely(machine); }) {
  if (options.offline) return;
  scratch_stride_ = (code.scratch_bytes + 63) / 64 * 64;
  scratch_ = Memory(scratch_stride_ * pool_.threads(), "the threads' scratch memory");
  if (options_.share.instances > 1 && options_.share.fabric) {
    peers_ = std::make_unique<Peers>(options_.share, program_);
  }
  make_replicas();
  make_collectives();
  if (peers_) peers_->shared_pages().settle();
}

void Runner::make_replicas() {
  const int ipus = static_cast<int>(program_.ipus.size());
  const int first = options_.share.first(program_.replicas);
  for (int r = first; r < first + options_.share.count(program_.replicas); ++r) {
    Replica& shared = replicas_.emplace_back(ipus);
    for (int64_t bytes : code_.channel_bytes) shared.channels.emplace_back(bytes);
    for (const ir::RemoteBuffer& buffer : program_.remote_buffers) {
      shared.remote.emplace_back(buffer.type.bytes() * buffer.entries,
                                 str("remote buffer '", buffer.name, "'"));
    }
    make_streams(shared, r);
    for (int ipu = 0; ipu < ipus; ++ipu) make_machine(r, ipu);
  }
}

void Runner::make_machine(int replica, int ipu) {
  Machine& machine = machines_.emplace_back();
  machine.code = &code_.ipus[ipu];
  machine.shared = &replicas_.back();
  machine.replica = replica;
  machine.name = str("IPU ", ipu);
  if (program_.replicas > 1) machine.name += str(" of replica ", replica);
  machine.rounds_left.resize(static_cast<size_t>(machine.code->loops));
  machine.begun.resize(code_.collectives.size(), -1);
  machine.prepared.resize(static_cast<size_t>(machine.code->prepared), -1);
  machine.arena =
      Memory(machine.code->arena_bytes,
             str("the activations of IPU ", ipu, " of replica ", replica), peers_ != nullptr);
  for (const program::Stash& stash : program_.stashes) {
    if (stash.ipu == ipu) {
      machine.stashes.emplace_back(stash.type.bytes() * stash.depth,
                                   str("the stashes of IPU ", ipu));
    } else {
      machine.stashes.emplace_back();
    }
  }
  for (ValueId id : machine.code->table) {
    if (id == kNoValue) {
      machine.table.push_back(nullptr);
      continue;
    }
    const Value& value = code_.value(id);
    const Storage& storage = code_.storage_of(id);
    std::byte* base = storage.base == Base::kArena ? machine.arena.data() + storage.offset
                                                   : store_.address(value.storage, replica);
    machine.table.push_back(base + value.offset);
  }
  if (peers_) share_buffers(machine);
}

// Registers the buffers of the machine that other instances read directly.
void Runner::share_buffers(const Machine& machine) {
  for (const Step& step : machine.code->steps) {
    if (step.kind != Step::Kind::kCollective) continue;
    const CollectiveSpec& spec = code_.collectives[step.index];
    const int group = spec.groups.of(machine.replica);
    if (spec.ways[group] != Way::kShared) continue;
    peers_->shared_pages().add(machine.table[step.buffers], spec.operand_bytes());
    if (spec.kind != CollectiveKind::kAllReduce) continue;
    peers_->shared_pages().add(machine.table[step.buffers + 1], spec.operand_bytes());
  }
}

void Runner::make_streams(Replica& shared, int replica) {
  int inputs = 0, outputs = 0;
  const int replicas = program_.replicas;
  const Share& share = options_.share;
  for (const program::Stream& stream : program_.streams) {
    const bool in = stream.host.to_device;
    StreamEnd end{.stream = &stream, .bytes = stream.host.type.bytes()};
    end.host_buffer = in ? inputs++ : outputs++;
    int64_t place = replica - share.first(replicas), places = share.count(replicas);
    if (in) {
      const auto all = program::groups_of(stream, replicas);
      const auto groups = share.groups(all);
      place = std::lower_bound(groups.begin(), groups.end(), all.of(replica)) - groups.begin();
      places = static_cast<int64_t>(groups.size());
    }
    end.first = place * end.bytes;
    end.step = places * end.bytes;
    end.times.resize(static_cast<size_t>(in ? stream.transfers : stream.kept()));
    shared.streams.push_back(std::move(end));
  }
}

void Runner::make_collectives() {
  const Share& share = options_.share;
  for (const CollectiveSpec& spec : code_.collectives) {
    const auto number = static_cast<int>(collectives_.size());
    auto& groups = collectives_.emplace_back();
    groups.resize(static_cast<size_t>(spec.groups.count()));
    for (int g : share.groups(spec.groups)) {
      auto& made = groups[g];
      if (spec.ways[g] == Way::kLocal) {
        made = std::make_unique<Collective>(spec, spec.groups.ranks(), &pool_);
        continue;
      }
      if (!peers_) peers_ = std::make_unique<Peers>(share, program_);
      InstanceGroup group(share, g, spec.groups);
      auto remote = make_remote_collective(spec, number, std::move(group), *peers_);
      remote_.add(*remote);
      made = std::move(remote);
    }
  }
}

void Runner::restart() {
  forget_partial_run();
  for (Replica& replica : replicas_) {
    for (Memory& remote : replica.remote) {
      std::memset(remote.data(), 0, static_cast<size_t>(remote.bytes()));
    }
  }
}

std::vector<std::pair<double, double>> Runner::transfer_times(size_t stream) const {
  std::vector<std::pair<double, double>> times;
  if (replicas_.empty()) return times;  // offline
  const size_t kept = replicas_.front().streams[stream].times.size();
  for (size_t k = 0; k < kept; ++k) {
    for (const Replica& replica : replicas_) times.push_back(replica.streams[stream].times[k]);
  }
  return times;
}

HostMemory Runner::memory() const {
  HostMemory memory;
  memory.state = store_.state_bytes();
  memory.constants = store_.constant_bytes();
  memory.layout_copies = store_.copied_bytes();
  memory.workspace = scratch_.bytes();
  for (const Machine& machine : machines_) {
    memory.arena += machine.arena.bytes();
    for (const Memory& stash : machine.stashes) memory.exchange += stash.bytes();
  }
  for (const Replica& replica : replicas_) {
    for (const Channel& channel : replica.channels) memory.exchange += channel.memory();
    for (const Memory& remote : replica.remote) memory.streaming += remote.bytes();
  }
  return memory;
}

}  // namespace poptorch::emulator
