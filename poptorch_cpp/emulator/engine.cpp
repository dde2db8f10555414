// Binds the program, then creates the runner.
#include "emulator/engine.hpp"

#include <cstring>
#include <thread>

#include "emulator/bind/bound_program.hpp"
#include "emulator/bound/text.hpp"
#include "emulator/collectives/instances.hpp"
#include "emulator/run/run_state.hpp"
#include "emulator/run/runner.hpp"
#include "emulator/run/state_store.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

EngineOptions resolved(EngineOptions options) {
  if (options.threads <= 0) {
    options.threads = static_cast<int>(support::environment_number("POPTORCH_NUM_THREADS", 0));
  }
  if (options.threads <= 0) {
    options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  if (options.reference_only) {
    options.fuse = options.layouts = options.keep_recomputed = false;
    options.begin_ahead = false;
  }
  note_fabric(options.share);
  return options;
}

}  // namespace

struct Engine::Impl {
  Impl(std::shared_ptr<const BoundProgram> given, const EngineOptions& options)
      : bound(std::move(given)),
        program(bound->program),
        code(bound->code),
        share(options.share),
        store(code, options.state, share, options.offline),
        runner(code, store, state, options) {
    offline = options.offline;
    random.seed = options.random_seed.value_or(program.random_seed);
  }

  void refuse_offline() const {
    if (!offline) return;
    throw support::UserError(
        "[engine] the program was compiled offline, for inspection only. Compile it for a device "
        "to run it.");
  }

  int find_remote(const std::string& name, int replica) const {
    refuse_offline();
    if (replica < 0 || replica >= program.replicas) {
      throw support::UserError(
          str("[remote buffer] there is no replica ", replica, " among ", program.replicas, "."));
    }
    if (!share.has(replica, program.replicas)) {
      throw support::UserError(str("[remote buffer] replica ", replica, " is run by instance ",
                                   share.owner(replica, program.replicas),
                                   ", but this is instance ", share.instance, ", which runs ",
                                   share.count(program.replicas), " replicas from replica ",
                                   share.first(program.replicas), ". Read or write it there."));
    }
    for (size_t i = 0; i < program.remote_buffers.size(); ++i) {
      if (program.remote_buffers[i].name == support::Symbol(name)) return static_cast<int>(i);
    }
    throw support::UserError(str("[remote buffer] there is no remote buffer '", name, "'."));
  }

  std::shared_ptr<const BoundProgram> bound;
  const program::Program& program;
  const Code& code;  // of the program that runs
  Share share;
  StateStore store;
  RunState state;
  Runner runner;
  RandomState random;
  bool offline = false;
};

Engine::Engine(program::Program program, const ir::Registry& registry, EngineOptions options) {
  check_instances(options.share, program.replicas);
  options = resolved(std::move(options));
  impl_ = std::make_unique<Impl>(bind_program(std::move(program), registry, options), options);
}
Engine::Engine(std::shared_ptr<const BoundProgram> bound, EngineOptions options) {
  check_instances(options.share, bound->program.replicas);
  impl_ = std::make_unique<Impl>(std::move(bound), resolved(std::move(options)));
}
Engine::~Engine() = default;

const program::Program& Engine::program() const { return impl_->program; }
std::shared_ptr<const BoundProgram> Engine::bound() const { return impl_->bound; }
const Share& Engine::share() const { return impl_->share; }

ir::Type Engine::host_type(const program::Stream& stream) const {
  const int replicas = impl_->program.replicas;
  if (!stream.host.to_device) return stream.host_type_of(impl_->share.count(replicas));
  const auto groups = impl_->share.groups(program::groups_of(stream, replicas));
  return stream.host_type_of(static_cast<int>(groups.size()));
}

void Engine::run(const std::vector<const std::byte*>& inputs,
                 const std::vector<std::byte*>& outputs) {
  impl_->refuse_offline();
  size_t in = 0, out = 0;
  for (const program::Stream& stream : impl_->program.streams) ++(stream.host.to_device ? in : out);
  if (inputs.size() != in || outputs.size() != out) {
    throw support::UserError(str("[engine] the program has ", in, " inputs and ", out,
                                 " outputs, but ", inputs.size(), " and ", outputs.size(),
                                 " buffers were given."));
  }
  impl_->runner.run(inputs, outputs, impl_->random);
  impl_->random.micro_batch += static_cast<uint64_t>(impl_->program.micro_batches_per_run);
}

RunState& Engine::run_state() { return impl_->state; }

bool Engine::left_state_partial() const {
  return impl_->state.kind() == RunState::Kind::kPartial && impl_->store.is_written();
}

bool Engine::forget_partial_state() {
  return impl_->state.forget_interruption() && impl_->store.is_written();
}

void Engine::restart() {
  impl_->store.restart();
  impl_->runner.restart();
  impl_->state.restart();
}

StateStore& Engine::state() { return impl_->store; }
const StateStore& Engine::state() const { return impl_->store; }

void Engine::read_remote(const std::string& name, int replica, int64_t entry,
                         std::byte* data) const {
  const int buffer = impl_->find_remote(name, replica);
  const int64_t bytes = impl_->program.remote_buffers[buffer].type.bytes();
  std::memcpy(data, impl_->runner.remote_row(buffer, replica, entry), static_cast<size_t>(bytes));
}

void Engine::write_remote(const std::string& name, int replica, int64_t entry,
                          const std::byte* data) {
  const int buffer = impl_->find_remote(name, replica);
  const int64_t bytes = impl_->program.remote_buffers[buffer].type.bytes();
  std::memcpy(impl_->runner.remote_row(buffer, replica, entry), data, static_cast<size_t>(bytes));
}

void Engine::exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                      const std::vector<int>& owners) {
  impl_->runner.exchange(what, rows, row_bytes, owners);
}

void Engine::exchange_before_run(const std::string& what, std::byte* rows, int64_t row_bytes,
                                 const std::vector<int>& owners) {
  impl_->runner.exchange_before_run(what, rows, row_bytes, owners);
}

void Engine::tell(const std::byte* note, int64_t bytes) {
  if (Peers* const peers = impl_->runner.peers()) peers->tell(note, bytes);
}

int Engine::hear(std::byte* note, int64_t bytes) {
  Peers* const peers = impl_->runner.peers();
  return peers ? peers->hear(note, bytes) : -1;
}

std::vector<std::pair<double, double>> Engine::transfer_times(size_t stream) const {
  return impl_->runner.transfer_times(stream);
}

RandomState Engine::random_state() const { return impl_->random; }
void Engine::set_random_state(RandomState state) { impl_->random = state; }

HostMemory Engine::memory() const { return impl_->runner.memory(); }

std::vector<std::pair<std::string, double>> Engine::reference_shares() const {
  return impl_->runner.reference_time().shares();
}

std::string Engine::text() const { return print(impl_->code); }

std::vector<std::pair<uint64_t, std::string>> Engine::op_lines() const {
  return emulator::op_lines(impl_->code);
}

}  // namespace poptorch::emulator
