// Implements engine.hpp: bind in its passes, then hand over to the runner.
#include "emulator/engine.hpp"

#include <cstring>
#include <thread>

#include "emulator/keep_values.hpp"
#include "emulator/plan.hpp"
#include "emulator/run.hpp"
#include "emulator/state_store.hpp"
#include "emulator/step.hpp"
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
  if (options.reference_only) options.fuse = options.layouts = options.keep_recomputed = false;
  return options;
}

Plan bound(const program::Program& program, const ir::Registry& registry,
           const EngineOptions& options) {
  Plan plan = make_plan(program, registry, options);
  if (!options.reference_only) fuse_chains(plan);
  attach_epilogues(plan);
  choose_layouts(plan);
  bind_kernels(plan);
  plan_arena(plan);
  return plan;
}

}  // namespace

struct Engine::Impl {
  Impl(program::Program moved, const ir::Registry& registry, const EngineOptions& options)
      : program(std::move(moved)),
        host_program(options.keep_recomputed ? keep_recomputed(program, registry) : std::nullopt),
        plan(bound(host_program ? *host_program : program, registry, options)),
        code(make_code(plan)),
        store(plan, options.state),
        runner(plan, code, store, options) {
    random.seed = options.random_seed.value_or(program.random_seed);
  }

  int find_remote(const std::string& name, int replica) const {
    if (replica < 0 || replica >= program.replicas) {
      throw support::UserError(
          str("[remote buffer] there is no replica ", replica, " among ", program.replicas, "."));
    }
    for (size_t i = 0; i < program.remote_buffers.size(); ++i) {
      if (program.remote_buffers[i].name == support::Symbol(name)) return static_cast<int>(i);
    }
    throw support::UserError(str("[remote buffer] there is no remote buffer '", name, "'."));
  }

  program::Program program;
  std::optional<program::Program> host_program;  // what runs, where that is not `program`
  Plan plan;                                     // of what runs
  Code code;
  StateStore store;
  Runner runner;
  RandomState random;
};

Engine::Engine(program::Program program, const ir::Registry& registry, EngineOptions options)
    : impl_(std::make_unique<Impl>(std::move(program), registry, resolved(options))) {}
Engine::~Engine() = default;

const program::Program& Engine::program() const { return impl_->program; }

void Engine::run(const std::vector<const std::byte*>& inputs,
                 const std::vector<std::byte*>& outputs) {
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

bool Engine::left_state_partial() const {
  return impl_->runner.failed() && impl_->store.is_written();
}

void Engine::restart() {
  impl_->store.restart();
  impl_->runner.clear_remote_buffers();
}

void Engine::read_state(const std::string& name, std::byte* data) const {
  impl_->store.read(name, data);
}
void Engine::write_state(const std::string& name, const std::byte* data) {
  impl_->store.write(name, data);
}
int64_t Engine::state_bytes(const std::string& name) const { return impl_->store.bytes(name); }

void Engine::read_remote(const std::string& name, int replica, int64_t entry,
                         std::byte* data) const {
  const int buffer = impl_->find_remote(name, replica);
  const int64_t bytes = impl_->program.remote_buffers[static_cast<size_t>(buffer)].type.bytes();
  std::memcpy(data, impl_->runner.remote_row(buffer, replica, entry), static_cast<size_t>(bytes));
}

void Engine::write_remote(const std::string& name, int replica, int64_t entry,
                          const std::byte* data) {
  const int buffer = impl_->find_remote(name, replica);
  const int64_t bytes = impl_->program.remote_buffers[static_cast<size_t>(buffer)].type.bytes();
  std::memcpy(impl_->runner.remote_row(buffer, replica, entry), data, static_cast<size_t>(bytes));
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

std::string Engine::text() const {
  std::string text;
  for (size_t i = 0; i < impl_->code.ipus.size(); ++i) {
    text += str("ipu ", i, "\n");
    for (const std::string& line : impl_->code.ipus[i].texts) text += "  " + line + "\n";
  }
  return text;
}

}  // namespace poptorch::emulator
