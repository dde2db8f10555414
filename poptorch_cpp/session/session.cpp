// Implements session.hpp: the compiled forms with the engine that runs the program.
#include "session/session.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <optional>
#include <stdexcept>

#include "emulator/engine.hpp"
#include "ir/text.hpp"
#include "session/agreement.hpp"
#include "session/cache.hpp"
#include "session/forms.hpp"
#include "session/memory_limit.hpp"
#include "session/pipeline.hpp"
#include "session/report.hpp"
#include "session/run_clock.hpp"
#include "session/timeline.hpp"
#include "session/turns.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/faults.hpp"
#include "support/moved_bytes.hpp"
#include "support/pass_faults.hpp"
#include "support/regions.hpp"
#include "support/strings.hpp"
#include "transforms/passes.hpp"

namespace poptorch::session {
namespace {

// What the standard library throws when a program's sizes are beyond the host.
template <typename Work>
auto refusing_exhaustion(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw support::UserError(
      "[memory] this host has not the memory that the program needs. Make tensors and batches "
      "smaller, or use fewer replicas and iterations.");
}

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

class CompiledModel final : public Executable {
 public:
  CompiledModel(Compiled forms, const ir::Registry& registry, const HostOptions& options)
      : forms_(std::move(forms)),
        engine_(std::move(forms_.program), registry,
                {.threads = static_cast<int>(options.threads),
                 .state = std::move(forms_.state),
                 .share = options.share,
                 .offline = options.offline}) {
    const int64_t size = program::instruction_count(engine_.program());
    forms_.record.passes.push_back({"bind", now() - began_, size, size});
    forms_.record.seconds += forms_.record.passes.back().seconds;
    for (const program::Stream& stream : engine_.program().streams) {
      auto& types = stream.host.to_device ? input_types_ : output_types_;
      types.push_back(engine_.host_type(stream));
    }
    for (const program::State& state : engine_.program().states) states_.push_back(state.slot);
  }

  const std::vector<ir::Type>& input_types() const override { return input_types_; }
  const std::vector<ir::Type>& output_types() const override { return output_types_; }

  std::vector<std::string> input_names() const override { return stream_names(true); }
  std::vector<std::string> output_names() const override { return stream_names(false); }

  void run(const std::vector<const std::byte*>& inputs,
           const std::vector<std::byte*>& outputs) override {
    const Turns::Turn turn(turns_);
    if (is_closed_) {
      throw support::UserError(
          "[run] destroy() was called while this thread was about to run the model. Call destroy() "
          "when no thread uses the wrapper any more.");
    }
    on_device([&] {
      try {
        agreement_.before_run();
        const int64_t began = RunClock::now();
        support::in_frame("run",
                          [&] { refusing_exhaustion([&] { engine_.run(inputs, outputs); }); });
        clock_.note(began);
      } catch (const support::DeviceError&) {
        throw;
      } catch (...) {
        if (engine_.left_state_partial()) has_partial_state_ = true;
        throw;
      }
    });
  }
  void close() override {
    const Turns::Turn turn(turns_, Turns::IfTaken::kRefuse);
    is_closed_ = true;
  }
  void reopen() override {
    const Turns::Turn turn(turns_);
    is_closed_ = false;
  }
  bool forget_partial_state() override { return has_partial_state_.exchange(false); }

  void attach() override {
    const Turns::Turn turn(turns_);
    support::meet_fault(support::FaultPoint::kAttach);
    if (!failure_) return;
    engine_.restart();
    has_failed_ = has_partial_state_ = false;
    failure_.reset();
  }
  bool has_failed() const override { return has_failed_; }

  const std::vector<ir::StateSlot>& states() const override { return states_; }
  ir::Type state_type(const ir::StateSlot& slot) const override {
    ir::Type type = slot.type;
    if (slot.group_size > 0) {
      const int groups = program::group_count(engine_.program().replicas, slot.group_size);
      type.shape.insert(type.shape.begin(), groups);
    }
    return type;
  }
  void read_state(const std::string& name, std::byte* data) const override {
    const Turns::Turn turn(turns_);
    copy([&] { engine_.read_state(name, data); });
  }
  void read_states(const std::vector<std::pair<std::string, std::byte*>>& into) const override {
    const Turns::Turn turn(turns_);
    copy([&] {
      for (const auto& [name, data] : into) {
        engine_.read_state(name, data);
        support::note_moved_bytes(engine_.state_bytes(name));
      }
    });
  }
  std::vector<std::pair<int, int>> far_groups(const std::string& name) const override {
    return engine_.far_groups(name);
  }
  std::vector<int> owners(const std::string& name) const override { return engine_.owners(name); }
  Replicas replicas() const override {
    const int all = engine_.program().replicas;
    const emulator::Share& share = engine_.share();
    return {.first = share.first(all), .count = share.count(all), .all = all};
  }
  void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                const std::vector<int>& owners) override {
    const Turns::Turn turn(turns_);
    engine_.exchange(what, rows, row_bytes, owners);
  }
  void write_states(const std::vector<std::pair<std::string, const std::byte*>>& from) override {
    const Turns::Turn turn(turns_);
    copy([&] {
      for (const auto& [name, data] : from) {
        agreement_.before_write(name);
        engine_.write_state(name, data);
        support::note_moved_bytes(engine_.state_bytes(name));
      }
    });
  }
  void write_state(const std::string& name, const std::byte* data) override {
    const Turns::Turn turn(turns_);
    const auto write = [&] {
      agreement_.before_write(name);
      engine_.write_state(name, data);
    };
    if (is_hyper_parameter(name)) {
      write();
    } else {
      copy(write);
    }
  }

  const std::vector<ir::RemoteBuffer>& remote_buffers() const override {
    return engine_.program().remote_buffers;
  }
  void read_remote(const std::string& name, int replica, int64_t entry,
                   std::byte* data) const override {
    const Turns::Turn turn(turns_);
    copy([&] { engine_.read_remote(name, replica, entry, data); });
  }
  void write_remote(const std::string& name, int replica, int64_t entry,
                    const std::byte* data) override {
    const Turns::Turn turn(turns_);
    copy([&] { engine_.write_remote(name, replica, entry, data); });
  }

  std::string text(const std::string& form, bool locations) const override {
    if (form == "program") return program::print(engine_.program(), locations);
    if (form == "bound") return engine_.text();
    const ir::Module* module = form_named(form);
    if (!module) refuse_without_forms();
    return ir::print(*module, {.locations = locations});
  }

  std::vector<std::pair<uint64_t, std::string>> op_lines(const std::string& form) const override {
    if (form == "program") return program::op_lines(engine_.program());
    if (form == "bound") return engine_.op_lines();
    const ir::Module* module = form_named(form);
    return module ? ir::op_lines(*module) : std::vector<std::pair<uint64_t, std::string>>();
  }
  const program::Program& program() const override { return engine_.program(); }
  const CompileRecord& compile_record() const override { return forms_.record; }
  bool has_forms() const override { return forms_.placed != nullptr; }
  bool has_execution() const override { return forms_.execution.has_value(); }
  const ir::Execution& execution() const override {
    if (!forms_.execution) refuse_without_forms();
    return *forms_.execution;
  }
  Report report() const override {
    Report report = make_report(engine_.program(), engine_.share().instances);
    report.reference_kernels = engine_.reference_shares();
    report.measured = clock_.times();
    return report;
  }
  int ipus() const override { return static_cast<int>(engine_.program().ipus.size()); }
  std::string highest_ipu() const override { return forms_.highest_ipu; }
  Timeline timeline(int64_t micro_batches) const override {
    return session::timeline(engine_.program(), micro_batches);
  }

  std::vector<std::pair<int, std::string>> anchored() const override {
    std::vector<std::pair<int, std::string>> found;
    for (const program::Stream& stream : engine_.program().streams) {
      if (stream.anchor >= 0) found.emplace_back(stream.anchor, stream.anchored.text());
    }
    return found;
  }
  std::vector<std::string> anchor_names() const override {
    if (!forms_.traced) refuse_without_forms();
    return transforms::anchor_names(*forms_.traced);
  }
  std::vector<std::pair<double, double>> transfer_times(size_t stream) const override {
    const Turns::Turn turn(turns_);
    return engine_.transfer_times(stream);
  }

  std::pair<uint64_t, uint64_t> random_state() const override {
    const Turns::Turn turn(turns_);
    const emulator::RandomState state = engine_.random_state();
    return {state.seed, state.micro_batch};
  }
  void set_random_state(std::pair<uint64_t, uint64_t> state) override {
    const Turns::Turn turn(turns_);
    engine_.set_random_state({state.first, state.second});
  }

 private:
  // Of the IR; null when it is not there, UserError for another name.
  const ir::Module* form_named(const std::string& form) const {
    const std::pair<const char*, const ir::Module*> modules[] = {
        {"traced", forms_.traced.get()},
        {"normal", forms_.normal.get()},
        {"differentiated", forms_.differentiated.get()},
        {"placed", forms_.placed.get()}};
    for (const auto& [name, module] : modules) {
      if (form == name) return module;
    }
    throw support::UserError(
        support::str("[graph] there is no form '", form,
                     "'. The forms are traced, normal, differentiated, placed, "
                     "program and bound."));
  }
  std::vector<std::string> stream_names(bool to_device) const {
    std::vector<std::string> names;
    for (const program::Stream& stream : engine_.program().streams) {
      if (stream.host.to_device == to_device) names.push_back(stream.host.name.text());
    }
    return names;
  }
  [[noreturn]] static void refuse_without_forms() {
    throw support::UserError(
        "[graph] this model was loaded from its program, or from the cache: the forms before it "
        "are "
        "not there. Ask a model that was compiled.");
  }

  // With the turn. What a fault of the device ends is the end of what it holds.
  template <typename Work>
  void on_device(Work work) const {
    if (failure_) throw support::failed_before(*failure_);
    try {
      work();
    } catch (const support::DeviceError& error) {
      failure_ = error;
      has_failed_ = true;
      throw;
    }
  }
  template <typename Work>
  void copy(Work work) const {
    on_device([&] {
      support::meet_fault(support::FaultPoint::kCopy);
      work();
    });
  }
  bool is_hyper_parameter(const std::string& name) const {
    return std::any_of(states_.begin(), states_.end(), [&](const ir::StateSlot& slot) {
      return slot.kind == "hyper_parameter" && slot.name.text() == name;
    });
  }

  const double began_ = now();
  Compiled forms_;  // without the program, which the engine holds; none after load()
  mutable Turns turns_;
  bool is_closed_ = false;
  std::atomic<bool> has_partial_state_{false};
  mutable std::optional<support::DeviceError> failure_;
  mutable std::atomic<bool> has_failed_{false};  // whether there is one, without the turn
  emulator::Engine engine_;
  Agreement agreement_{engine_};  // with other instances
  std::vector<ir::Type> input_types_, output_types_;
  std::vector<ir::StateSlot> states_;
  RunClock clock_;
};

}  // namespace

std::unique_ptr<Executable> bind(Compiled forms, const ir::Registry& registry,
                                 const HostOptions& options) {
  const support::Region binding("poptorch::bind");
  const support::PassFaults faults("bind");
  return refusing_exhaustion(
      [&] { return std::make_unique<CompiledModel>(std::move(forms), registry, options); });
}

std::unique_ptr<Executable> compile(std::unique_ptr<ir::Module> module, const HostOptions& options,
                                    const Progress& progress) {
  support::check_environment();
  const support::CompilationFaults faults;
  const double began = now();
  const auto made = [&] {
    const ir::Registry& registry = module->registry();
    const int steps = compile_steps(*module);
    Compiled forms = options.cache_path.empty()
                         ? compile_to_program(std::move(module), options, progress)
                         : compile_cached(std::move(module), options, progress);
    forms.record.seconds = now() - began;
    if (progress) progress(steps - 1, steps, "bind");
    auto model = bind(std::move(forms), registry, options);
    if (progress) progress(steps, steps, "ready");
    faults.finish();
    return model;
  };
  return support::in_frame("compile", [&] { return refusing_exhaustion(made); });
}

Compiled parsed(std::string_view text, const ir::Registry& registry) {
  return refusing_exhaustion([&] {
    Compiled forms;
    forms.program = program::parse(text, registry, "program");
    program::verify(forms.program);
    return forms;
  });
}

std::unique_ptr<Executable> load(std::string_view text, const ir::Registry& registry,
                                 const HostOptions& options) {
  support::check_environment();
  const support::CompilationFaults faults;
  return support::in_frame("load", [&] {
    Compiled forms = parsed(text, registry);
    check_memory_limit(forms.program, options.early_memory_limit());
    auto model = bind(std::move(forms), registry, options);
    faults.finish();
    return model;
  });
}

}  // namespace poptorch::session
