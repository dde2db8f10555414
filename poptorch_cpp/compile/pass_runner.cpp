#include "compile/pass_runner.hpp"

#include <time.h>

#include <chrono>
#include <iostream>
#include <utility>

#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "partition/defer_gradients.hpp"
#include "partition/phases.hpp"
#include "partition/place.hpp"
#include "partition/recompute.hpp"
#include "partition/stages.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::compile {
namespace {

using support::str;

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Returns the CPU time of this thread, which is independent of other programs on the machine.
double cpu_time() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

const std::vector<transforms::PassRow>& partition_passes() {
  static const std::vector<transforms::PassRow> rows = {
      {"place_ops", partition::place_ops},
      {"assign_stages", partition::assign_stages},
      {"recompute_forward", partition::recompute_forward, true},
      {"defer_gradients",
       [](ir::Module& module) { partition::defer_gradients(module.main(), module.execution()); },
       true},
      {"insert_copies", partition::insert_copies},
      {"assign_phases",
       [](ir::Module& module) { partition::assign_phases(module, partition::Parity::kAny); }},
      {"assign_parallel_phases",
       [](ir::Module& module) { partition::assign_phases(module, partition::Parity::kAsIpu); }},
      {"verify_placed", [](ir::Module& module) { partition::verify_placed(module); }},
  };
  return rows;
}

}  // namespace

namespace {

// Returns null for an unknown name.
const transforms::PassRow* look_for_pass(std::string_view name) {
  for (const auto* table : {&partition_passes(), &transforms::all_passes()}) {
    for (const auto& row : *table) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto* table : {&transforms::all_passes(), &partition_passes()}) {
    for (const auto& row : *table) names.emplace_back(row.name);
  }
  return names;
}

// Returns the passes that a variable names; UserError for one that `takes` rejects.
template <typename Takes>
std::set<std::string> passes_in(std::string_view variable, Takes takes, const std::string& cure) {
  std::set<std::string> names;
  for (const std::string& name : support::environment_names(variable)) {
    const transforms::PassRow* row = look_for_pass(name);
    if (!takes(name, row)) {
      const std::string near = row ? "" : support::closest_name(name, all_names());
      throw support::UserError(str("[environment] ", variable, " names '", name, "', which is ",
                                   row ? "a required pass" : "not a pass", ".",
                                   near.empty() ? "" : str(" Did you mean '", near, "'?"), " ",
                                   cure));
    }
    names.insert(name);
  }
  return names;
}

std::set<std::string> disabled_passes() {
  std::vector<std::string> optional;
  for (const auto* table : {&transforms::all_passes(), &partition_passes()}) {
    for (const auto& row : *table) {
      if (row.optional) optional.emplace_back(row.name);
    }
  }
  return passes_in(
      "POPTORCH_DISABLE_PASSES",
      [](const std::string&, const transforms::PassRow* row) { return row && row->optional; },
      str("Set it to some of ", support::join(optional, ", "), ", or unset it."));
}

std::set<std::string> dumped_passes() {
  return passes_in(
      "POPTORCH_DUMP",
      [](const std::string& word, const transforms::PassRow* row) { return row || word == "all"; },
      str("Set it to all or some of ", support::join(all_names(), ", "), ", or unset it."));
}

}  // namespace

const transforms::PassRow& find_pass(std::string_view name) {
  if (const transforms::PassRow* row = look_for_pass(name)) return *row;
  std::string text = str("[pipeline] there is no pass '", name, "'.");
  const std::string near = support::closest_name(name, all_names());
  if (!near.empty()) text += str(" Did you mean '", near, "'?");
  throw support::UserError(text);
}

int64_t ops_of(const ir::Module& module) {
  size_t ops = 0;
  for (const auto& graph : module.graphs()) ops += graph->op_count();
  return static_cast<int64_t>(ops);
}

PassRunner::PassRunner(Progress progress, int steps)
    : progress_(std::move(progress)),
      steps_(steps),
      start_(cpu_time()),
      disabled_(disabled_passes()),
      dumped_(dumped_passes()),
      reparses_(support::environment_flag("POPTORCH_REPARSE")) {}

PassRunner::PassRunner(std::set<std::string> disabled)
    : start_(cpu_time()), disabled_(std::move(disabled)) {}

PassRunner::Timed::Timed(PassRunner& runner, std::string_view name)
    : runner_(runner),
      name_(name),
      start_(now()),
      region_("poptorch::pass " + name_),
      faults_(name) {
  runner_.records_.push_back({name_, 0, runner_.ops_, runner_.ops_});
  if (runner_.progress_) runner_.progress_(runner_.done_, runner_.steps_, name_);
}

PassRunner::Timed::~Timed() {
  runner_.records_.back().seconds = now() - start_;
  runner_.done_ = std::min(runner_.done_ + 1, runner_.steps_);
  if (support::LogLevel::kDebug >= support::compiler_log_level()) {
    support::log_compiler(support::LogLevel::kDebug,
                          str("compile: ", name_, " took ", (now() - start_) * 1e3, " ms"));
  }
}

void PassRunner::note_size(int64_t ops) {
  if (!records_.empty()) records_.back().ops_after = ops;
  ops_ = ops;
}

void PassRunner::verify(const ir::Module& module) {
  const double start = cpu_time();
  ir::verify(module);
  verify_seconds_ += cpu_time() - start;
}

void PassRunner::log_verifying() const {
  if (support::LogLevel::kDebug < support::compiler_log_level()) return;
  support::log_compiler(support::LogLevel::kDebug, str("compile: of ", (cpu_time() - start_) * 1e3,
                                                       " ms of CPU time, verifying the IR took ",
                                                       verify_seconds_ * 1e3, " ms"));
}

program::Program PassRunner::read_again(program::Program program,
                                        const ir::Registry& registry) const {
  if (!reparses_) return program;
  return program::parse(program::print(program), registry, "program");
}

void PassRunner::run(std::string_view name, std::unique_ptr<ir::Module>& module) {
  run(name, *module);
  if (reparses_)
    module = ir::parse(ir::print(*module, ir::kEverything), module->registry(), "form");
}

void PassRunner::run(std::string_view name, ir::Module& module) {
  const transforms::PassRow& row = find_pass(name);
  Timed timed(*this, name);
  if (disabled_.count(std::string(name))) return;
  const bool dump = dumped_.count("all") || dumped_.count(std::string(name));
  const std::string before = dump ? ir::print(module) : "";
  try {
    row.run(module);
    verify(module);
    note_size(ops_of(module));
  } catch (support::Error& error) {
    error.add_frame(str("pass ", name));
    throw;
  }
  if (!dump) return;
  const std::string after = ir::print(module);
  if (after != before) std::cerr << "// after " << name << "\n" << after;
}

}  // namespace poptorch::compile
