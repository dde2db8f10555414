// The compiled forms with the engine that runs the program. Calls have exclusive access. After a
// device fault the executable refuses to use the device until attach().
#include "session/executable.hpp"

#include <mutex>
#include <unordered_map>

#include "account/report.hpp"
#include "account/timeline.hpp"
#include "compile/compiled.hpp"
#include "compile/pipeline.hpp"
#include "emulator/engine.hpp"
#include "emulator/run/run_state.hpp"
#include "emulator/run/state_store.hpp"
#include "ir/text.hpp"
#include "program/replica_groups.hpp"
#include "session/exclusive_access.hpp"
#include "session/kept_programs.hpp"
#include "session/run_clock.hpp"
#include "session/state_comparison.hpp"
#include "support/error.hpp"
#include "support/exhaustion.hpp"
#include "support/faults.hpp"
#include "support/moved_bytes.hpp"
#include "support/regions.hpp"
#include "support/strings.hpp"
#include "transforms/passes.hpp"

namespace poptorch::session {

using Guard = ExclusiveAccess::Guard;

struct Executable::Impl {
  Impl(compile::Compiled moved, const ir::Registry& registry, const HostOptions& options)
      : forms(std::move(moved)), engine(engine_of(forms, registry, options)) {
    const int64_t size = program::instruction_count(program());
    forms.record.passes.push_back({"bind", RunClock::seconds_since(began), size, size});
    forms.record.seconds += forms.record.passes.back().seconds;
    for (const program::Stream& stream : program().streams) {
      auto& types = stream.host.to_device ? input_types : output_types;
      types.push_back(engine.host_type(stream));
    }
    for (const program::State& state : program().states) {
      state_places.emplace(state.slot.name.text(), states.size());
      states.push_back(state.slot);
    }
  }

  // Takes the program, or what an earlier compilation has bound, out of the forms.
  static emulator::Engine engine_of(compile::Compiled& forms, const ir::Registry& registry,
                                    const HostOptions& options) {
    emulator::EngineOptions engine{.threads = static_cast<int>(options.threads),
                                   .state = std::move(forms.state),
                                   .share = options.share,
                                   .offline = options.offline};
    if (forms.bound) return {std::move(forms.bound), std::move(engine)};
    return {std::move(forms.program), registry, std::move(engine)};
  }

  const program::Program& program() const { return engine.program(); }
  bool has_stages() const { return forms.disabled_passes.has_value(); }

  // Returns a form of the IR; null if it is not available, UserError for another name.
  const ir::Module* form_named(const std::string& form) const {
    using Stage = std::unique_ptr<ir::Module> compile::Stages::*;
    static constexpr std::pair<std::string_view, Stage> kStages[] = {
        {"normal", &compile::Stages::normal},
        {"differentiated", &compile::Stages::differentiated},
        {"placed", &compile::Stages::placed}};
    if (form == "traced") return forms.traced.get();
    for (const auto& [name, stage] : kStages) {
      if (form != name) continue;
      if (!has_stages()) return nullptr;
      std::call_once(made_stages, [&] { stages = compile::stages_of(forms); });
      return (stages.*stage).get();
    }
    throw support::UserError(support::str(
        "[graph] there is no IR stage '", form,
        "'. The IR stages are traced, normal, differentiated, placed, program and bound."));
  }

  std::vector<std::string> stream_names(bool to_device) const {
    std::vector<std::string> names;
    for (const program::Stream& stream : program().streams) {
      if (stream.host.to_device == to_device) names.push_back(stream.host.name.text());
    }
    return names;
  }

  // Requires exclusive access. After a device fault, which loses the device's contents, refuses
  // until attach().
  template <typename Work>
  void on_device(Work work) {
    engine.run_state().refuse_failed();
    try {
      work();
    } catch (const support::DeviceError& error) {
      engine.run_state().fail(error);
      throw;
    }
  }
  template <typename Work>
  void copy(Work work) {
    on_device([&] {
      support::meet_fault(support::FaultPoint::kCopy);
      work();
    });
  }
  const ir::StateSlot* find_state(const std::string& name) const {
    const auto found = state_places.find(name);
    return found == state_places.end() ? nullptr : &states[found->second];
  }
  bool is_hyper_parameter(const std::string& name) const {
    const ir::StateSlot* slot = find_state(name);
    return slot && slot->kind == "hyper_parameter";
  }

  const int64_t began = RunClock::now();
  compile::Compiled forms;  // without the program, which the engine holds; empty after load()
  mutable compile::Stages stages;  // made again when a caller asks for one
  mutable std::once_flag made_stages;
  ExclusiveAccess access;
  bool is_closed = false;
  emulator::Engine engine;
  StateComparison comparison{engine};  // with other instances
  std::vector<ir::Type> input_types, output_types;
  std::vector<ir::StateSlot> states;
  std::unordered_map<std::string, size_t> state_places;  // by name; look-up only
  RunClock clock;
};

namespace {

[[noreturn]] void refuse_without_forms() {
  throw support::UserError(
      "[graph] this model was loaded from its program or from the cache, without the earlier IR "
      "stages. Compile the model to see them.");
}

}  // namespace

Executable::Executable(compile::Compiled forms, const ir::Registry& registry,
                       const HostOptions& options)
    : impl_(std::make_unique<Impl>(std::move(forms), registry, options)) {}
Executable::~Executable() = default;

void Executable::keep(const HostOptions& options) const {
  KeptPrograms::of_process().keep(impl_->forms, impl_->engine.bound(), options);
}

const std::vector<ir::Type>& Executable::input_types() const { return impl_->input_types; }
const std::vector<ir::Type>& Executable::output_types() const { return impl_->output_types; }
std::vector<std::string> Executable::input_names() const { return impl_->stream_names(true); }
std::vector<std::string> Executable::output_names() const { return impl_->stream_names(false); }

void Executable::run(const std::vector<const std::byte*>& inputs,
                     const std::vector<std::byte*>& outputs) {
  const Guard guard(impl_->access);
  if (impl_->is_closed) {
    throw support::UserError(
        "[run] destroy() was called while this thread was about to run the model. Call destroy() "
        "when no thread uses the wrapper any more.");
  }
  impl_->on_device([&] {
    impl_->comparison.before_run();
    const int64_t began = RunClock::now();
    support::in_frame(
        "run", [&] { support::refusing_exhaustion([&] { impl_->engine.run(inputs, outputs); }); });
    impl_->clock.note(began);
  });
}

void Executable::close() {
  const Guard guard(impl_->access, ExclusiveAccess::IfTaken::kRefuse);
  impl_->is_closed = true;
}
void Executable::reopen() {
  const Guard guard(impl_->access);
  impl_->is_closed = false;
}
bool Executable::forget_partial_state() { return impl_->engine.forget_partial_state(); }

void Executable::attach() {
  const Guard guard(impl_->access);
  support::meet_fault(support::FaultPoint::kAttach);
  if (has_failed()) impl_->engine.restart();
}
bool Executable::has_failed() const {
  return impl_->engine.run_state().kind() == emulator::RunState::Kind::kFailed;
}

const std::vector<ir::StateSlot>& Executable::states() const { return impl_->states; }
const ir::StateSlot* Executable::find_state(const std::string& name) const {
  return impl_->find_state(name);
}

ir::Type Executable::state_type(const ir::StateSlot& slot) const {
  ir::Type type = slot.type;
  if (slot.group_size > 0) {
    const int groups = program::groups_of(slot, program().replicas).count();
    type.shape.insert(type.shape.begin(), groups);
  }
  return type;
}

void Executable::read_state(const std::string& name, std::byte* data) const {
  const Guard guard(impl_->access);
  impl_->copy([&] { impl_->engine.state().read(name, data); });
}

void Executable::read_states(const std::vector<std::pair<std::string, std::byte*>>& into) const {
  const Guard guard(impl_->access);
  impl_->copy([&] {
    for (const auto& [name, data] : into) {
      impl_->engine.state().read(name, data);
      support::note_moved_bytes(impl_->engine.state().bytes(name));
    }
  });
}

std::vector<std::pair<int, int>> Executable::remote_groups(const std::string& name) const {
  return impl_->engine.state().remote_groups(name);
}
std::vector<int> Executable::owners(const std::string& name) const {
  return impl_->engine.state().owners(name);
}

Executable::Replicas Executable::replicas() const {
  const int all = program().replicas;
  const emulator::Share& share = impl_->engine.share();
  return {.first = share.first(all), .count = share.count(all), .all = all};
}

void Executable::exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                          const std::vector<int>& owners) {
  const Guard guard(impl_->access);
  impl_->engine.exchange(what, rows, row_bytes, owners);
}

void Executable::write_states(const std::vector<std::pair<std::string, const std::byte*>>& from) {
  const Guard guard(impl_->access);
  impl_->copy([&] {
    for (const auto& [name, data] : from) {
      impl_->comparison.before_write(name);
      impl_->engine.state().write(name, data);
      support::note_moved_bytes(impl_->engine.state().bytes(name));
    }
  });
}

void Executable::write_state(const std::string& name, const std::byte* data) {
  const Guard guard(impl_->access);
  const auto write = [&] {
    impl_->comparison.before_write(name);
    impl_->engine.state().write(name, data);
  };
  if (impl_->is_hyper_parameter(name)) {
    write();
  } else {
    impl_->copy(write);
  }
}

const std::vector<ir::RemoteBuffer>& Executable::remote_buffers() const {
  return program().remote_buffers;
}
void Executable::read_remote(const std::string& name, int replica, int64_t entry,
                             std::byte* data) const {
  const Guard guard(impl_->access);
  impl_->copy([&] { impl_->engine.read_remote(name, replica, entry, data); });
}
void Executable::write_remote(const std::string& name, int replica, int64_t entry,
                              const std::byte* data) {
  const Guard guard(impl_->access);
  impl_->copy([&] { impl_->engine.write_remote(name, replica, entry, data); });
}

std::string Executable::text(const std::string& form, bool locations) const {
  if (form == "program") return program::print(program(), {.locations = locations});
  if (form == "bound") return impl_->engine.text();
  const ir::Module* module = impl_->form_named(form);
  if (!module) refuse_without_forms();
  return ir::print(*module, {.locations = locations});
}

std::vector<std::pair<uint64_t, std::string>> Executable::op_lines(const std::string& form) const {
  if (form == "program") return program::op_lines(program());
  if (form == "bound") return impl_->engine.op_lines();
  const ir::Module* module = impl_->form_named(form);
  return module ? ir::op_lines(*module) : std::vector<std::pair<uint64_t, std::string>>();
}

const program::Program& Executable::program() const { return impl_->program(); }
const CompileRecord& Executable::compile_record() const { return impl_->forms.record; }
bool Executable::has_forms() const { return impl_->has_stages(); }
bool Executable::has_execution() const { return impl_->forms.execution.has_value(); }
const ir::Execution& Executable::execution() const {
  if (!impl_->forms.execution) refuse_without_forms();
  return *impl_->forms.execution;
}

Report Executable::report() const {
  Report report = account::make_report(program(), impl_->engine.share().instances);
  report.reference_kernels = impl_->engine.reference_shares();
  report.measured = impl_->clock.times();
  return report;
}

int Executable::ipus() const { return static_cast<int>(program().ipus.size()); }
std::string Executable::highest_ipu() const { return impl_->forms.highest_ipu; }
Timeline Executable::timeline(int64_t micro_batches) const {
  return account::timeline(program(), micro_batches);
}

std::vector<std::pair<int, std::string>> Executable::anchored() const {
  std::vector<std::pair<int, std::string>> found;
  for (const program::Stream& stream : program().streams) {
    if (stream.anchor >= 0) found.emplace_back(stream.anchor, stream.anchored.text());
  }
  return found;
}

std::vector<std::string> Executable::anchor_names() const {
  if (!impl_->forms.traced) refuse_without_forms();
  return transforms::anchor_names(*impl_->forms.traced);
}

std::vector<std::pair<double, double>> Executable::transfer_times(size_t stream) const {
  const Guard guard(impl_->access);
  return impl_->engine.transfer_times(stream);
}

std::pair<uint64_t, uint64_t> Executable::random_state() const {
  const Guard guard(impl_->access);
  const emulator::RandomState state = impl_->engine.random_state();
  return {state.seed, state.micro_batch};
}
void Executable::set_random_state(std::pair<uint64_t, uint64_t> state) {
  const Guard guard(impl_->access);
  impl_->engine.set_random_state({state.first, state.second});
}

}  // namespace poptorch::session
