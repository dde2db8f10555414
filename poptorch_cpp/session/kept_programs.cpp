#include "session/kept_programs.hpp"

#include <algorithm>
#include <utility>

#include "account/memory_limit.hpp"
#include "emulator/bind/bound_program.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/text.hpp"
#include "lowering/device_iterations.hpp"
#include "support/environment.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::session {
namespace {

using compile::Compiled;
using compile::HostOptions;

constexpr size_t kMost = 8;                    // compilations
constexpr int64_t kMostInstructions = 200000;  // of all programs: about 120 MiB
constexpr int64_t kMostBytes = 32 << 20;       // of the constants of all programs
constexpr int64_t kMostOfLarge = 600000;       // instructions of the only large program

// Returns whether a compilation with these options may use or become a kept one. Dumps need the
// passes, and a folder of executables has its own entries.
bool takes_part(const HostOptions& options) {
  return options.cache_path.empty() && options.share.instances == 1 &&
         support::environment_names("POPTORCH_DUMP").empty() &&
         !support::environment_flag("POPTORCH_REPARSE") &&
         support::compiler_log_level() > support::LogLevel::kDebug;
}

// Returns what a program and its kernels depend on besides the module.
std::string settings_of(const HostOptions& options) {
  return support::str(options.threads, " ", options.round_ipu_count, " ", options.offline, "\n",
                      static_cast<int>(options.early_memory_limit()), "\n",
                      support::environment_settings());
}

int64_t bytes_of_constants(const program::Program& program) {
  int64_t bytes = 0;
  for (const ir::Literal& constant : program.constants) bytes += constant.type().bytes();
  return bytes;
}

bool has_only_own_ops(const ir::Module& module) {
  for (const auto& graph : module.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (!op->def().provider.empty()) return false;
    }
  }
  return true;
}

// Compares the modules as if they had the same number of device iterations.
bool are_identical(const ir::Module& kept, ir::Module& module) {
  int64_t& iterations = module.execution().device_iterations;
  const int64_t asked = iterations;
  iterations = kept.execution().device_iterations;
  const bool same = ir::identical(kept, module);
  iterations = asked;
  return same;
}

// Returns the bound program with other device iterations, or null if it must be compiled again.
std::shared_ptr<const emulator::BoundProgram> changed(const emulator::BoundProgram& bound,
                                                      const ir::Execution& execution, int64_t to) {
  const int64_t from = execution.device_iterations;
  auto program = lowering::with_device_iterations(bound.program, from, to, execution.outline);
  return program ? emulator::with_device_iterations(bound, std::move(*program), from, to) : nullptr;
}

}  // namespace

KeptPrograms& KeptPrograms::of_process() {
  static KeptPrograms& kept = *new KeptPrograms;  // outlives the libraries of its kernels
  return kept;
}

std::optional<Compiled> KeptPrograms::find(std::unique_ptr<ir::Module>& module,
                                           const HostOptions& options) {
  if (!takes_part(options)) return std::nullopt;
  const std::shared_ptr<const Entry> entry = entry_of(*module, settings_of(options));
  if (!entry) {
    drop_large();
    return std::nullopt;
  }
  const Compiled& kept = entry->forms;
  const int64_t from = kept.execution->device_iterations;
  const int64_t to = module->execution().device_iterations;
  ir::check(module->execution(), module->main().outputs().size());
  Compiled forms;
  forms.bound = from == to ? kept.bound : changed(*kept.bound, *kept.execution, to);
  if (!forms.bound) {
    drop_large();
    return std::nullopt;
  }
  // A program that does not fit is kept, too, and each compilation reports it.
  account::check_memory_limit(forms.bound->program, options.early_memory_limit());
  forms.disabled_passes = kept.disabled_passes;
  forms.execution = module->execution();
  forms.highest_ipu = kept.highest_ipu;
  forms.record.cached = true;
  forms.traced = std::move(module);
  return forms;
}

std::shared_ptr<const KeptPrograms::Entry> KeptPrograms::entry_of(ir::Module& module,
                                                                  const std::string& settings) {
  std::vector<std::shared_ptr<const Entry>> entries;
  {
    const std::lock_guard lock(mutex_);
    entries = entries_;
    if (large_) entries.push_back(large_);
  }
  const auto has_iterations = [&](const auto& entry) {
    return entry->forms.execution->device_iterations == module.execution().device_iterations;
  };
  // Not every program can be changed, so one that needs no change comes first.
  std::ranges::stable_partition(entries, has_iterations);
  const auto found = std::ranges::find_if(entries, [&](const auto& kept) {
    return kept->settings == settings && are_identical(*kept->forms.traced, module);
  });
  if (found == entries.end()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto place = std::ranges::find(entries_, *found);
  if (place != entries_.end()) std::rotate(entries_.begin(), place, place + 1);
  return *found;
}

void KeptPrograms::keep(const Compiled& forms, std::shared_ptr<const emulator::BoundProgram> bound,
                        const HostOptions& options) {
  if (forms.record.cached) return;  // it has the program of an entry
  if (!takes_part(options) || forms.has_warned || !has_only_own_ops(*forms.traced)) return;
  auto entry = std::make_shared<Entry>();
  entry->instructions = program::instruction_count(bound->program);
  entry->bytes = bytes_of_constants(bound->program);
  const bool is_large =
      entry->instructions > kMostInstructions / 2 || entry->bytes > kMostBytes / 2;
  if (is_large && (entry->instructions > kMostOfLarge || entry->bytes > kMostBytes)) return;
  entry->settings = settings_of(options);
  entry->forms.traced = forms.traced;
  entry->forms.disabled_passes = forms.disabled_passes;
  entry->forms.execution = forms.execution;
  entry->forms.highest_ipu = forms.highest_ipu;
  entry->forms.bound = std::move(bound);
  std::vector<std::shared_ptr<const Entry>> dropped;  // ends after the lock
  const std::lock_guard lock(mutex_);
  if (is_large) {
    dropped.push_back(std::exchange(large_, std::move(entry)));
    return;
  }
  entries_.insert(entries_.begin(), std::move(entry));
  while (exceeds_limits()) {
    dropped.push_back(std::move(entries_.back()));
    entries_.pop_back();
  }
}

void KeptPrograms::drop_large() {
  std::shared_ptr<const Entry> dropped;  // ends after the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(large_);
}

bool KeptPrograms::exceeds_limits() const {
  int64_t instructions = 0, bytes = 0;
  for (const auto& entry : entries_) {
    instructions += entry->instructions;
    bytes += entry->bytes;
  }
  return entries_.size() > kMost || instructions > kMostInstructions || bytes > kMostBytes;
}

}  // namespace poptorch::session
