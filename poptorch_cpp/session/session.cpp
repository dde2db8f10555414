#include "session/session.hpp"

#include "account/memory_limit.hpp"
#include "compile/cache.hpp"
#include "compile/pipeline.hpp"
#include "session/bind.hpp"
#include "session/kept_programs.hpp"
#include "session/run_clock.hpp"
#include "support/environment.hpp"
#include "support/exhaustion.hpp"
#include "support/faults.hpp"
#include "support/pass_faults.hpp"
#include "support/regions.hpp"
#include "support/watch.hpp"

namespace poptorch::session {

namespace {

compile::Compiled compiled(std::unique_ptr<ir::Module> module, const HostOptions& options,
                           const Progress& progress, bool needs_passes) {
  if (!needs_passes) {
    if (auto found = KeptPrograms::of_process().find(module, options)) return std::move(*found);
  }
  return options.cache_path.empty()
             ? compile::compile_to_program(std::move(module), options, progress)
             : compile::compile_cached(std::move(module), options, progress);
}

}  // namespace

std::unique_ptr<Executable> bind(compile::Compiled forms, const ir::Registry& registry,
                                 const HostOptions& options) {
  const support::Region binding("poptorch::bind");
  const support::PassFaults faults("bind");
  return support::refusing_exhaustion(
      [&] { return std::make_unique<Executable>(std::move(forms), registry, options); });
}

std::unique_ptr<Executable> compile(std::unique_ptr<ir::Module> module, const HostOptions& options,
                                    const Progress& progress) {
  support::check_environment();
  const support::CompilationFaults faults;
  const int64_t began = RunClock::now();
  const auto made = [&] {
    support::check_interrupt();  // a kept program needs no pass that does
    const ir::Registry& registry = module->registry();
    const int steps = compile::compile_steps(*module);
    compile::Compiled forms = compiled(std::move(module), options, progress, faults.is_due());
    forms.record.seconds = RunClock::seconds_since(began);
    if (progress) progress(steps - 1, steps, "bind");
    auto model = bind(std::move(forms), registry, options);
    model->keep(options);
    if (progress) progress(steps, steps, "ready");
    faults.finish();
    return model;
  };
  return support::in_frame("compile", [&] { return support::refusing_exhaustion(made); });
}

std::unique_ptr<Executable> load(std::string_view text, const ir::Registry& registry,
                                 const HostOptions& options) {
  support::check_environment();
  const support::CompilationFaults faults;
  return support::in_frame("load", [&] {
    support::check_interrupt();
    compile::Compiled forms = compile::parsed(text, registry);
    account::check_memory_limit(forms.program, options.early_memory_limit());
    auto model = bind(std::move(forms), registry, options);
    faults.finish();
    return model;
  });
}

}  // namespace poptorch::session
