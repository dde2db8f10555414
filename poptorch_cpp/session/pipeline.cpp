// The pipeline, to be read aloud. Where the order matters, a comment says why.
#include "session/pipeline.hpp"

#include "ir/verify.hpp"
#include "lowering/lower.hpp"
#include "session/memory_limit.hpp"
#include "session/pass_runner.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::session {
namespace {

using support::str;

// By OutputMode.
constexpr program::Keep kKeepOf[] = {program::Keep::kFinal, program::Keep::kEveryN,
                                     program::Keep::kAll, program::Keep::kSum};

lowering::LowerOptions lower_options_of(const CompileOptions& options) {
  return {.device = options.device,
          .device_iterations = options.device_iterations,
          .gradient_accumulation = options.gradient_accumulation,
          .replicas = static_cast<int>(options.replication_factor),
          .keep = kKeepOf[static_cast<size_t>(options.output_mode)],
          .keep_period = options.output_period,
          .random_seed = options.random_seed};
}

void check_options(const CompileOptions& options) {
  auto at_least_one = [](const char* name, int64_t value) {
    if (value < 1) {
      throw support::UserError(str("[options] ", name, " is ", value, ". It must be at least 1."));
    }
  };
  at_least_one("deviceIterations", options.device_iterations);
  at_least_one("gradientAccumulation", options.gradient_accumulation);
  at_least_one("replicationFactor", options.replication_factor);
  at_least_one("the output period", options.output_period);
  const int64_t batches = options.device_iterations * options.gradient_accumulation;
  if (options.output_mode == OutputMode::kEveryN && batches % options.output_period != 0) {
    throw support::UserError(str("[options] OutputMode.EveryN keeps every ", options.output_period,
                                 "th of ", batches, " micro-batches. Choose a period that divides ",
                                 batches, "."));
  }
}

}  // namespace

transforms::PassContext pass_context(const CompileOptions& options) {
  return {.training = options.training,
          .gradient_accumulation = options.gradient_accumulation,
          .replication_factor = options.replication_factor,
          .mean_reduction = options.mean_reduction,
          .optimiser = options.optimiser};
}

Compiled compile_to_program(std::unique_ptr<ir::Module> module, const CompileOptions& options,
                            const Progress& progress) {
  check_options(options);
  transforms::PassContext context = pass_context(options);
  PassRunner passes(context, progress, kCompileSteps);
  Compiled forms;

  passes.step("verify the traced form", [&] { ir::verify(*module); });
  forms.traced = module->clone();

  // --- normal ---
  // Calls first: everything behind sees through them. A call with its own gradient stays.
  passes.run("inline_calls", *module);
  passes.run("fold_constants", *module);
  passes.run("canonicalise", *module);
  passes.run("merge_common_subexpressions", *module);
  passes.run("eliminate_dead_ops", *module);
  forms.normal = module->clone();

  // --- differentiated ---
  passes.run("differentiate", *module);
  // Again: gradients that the user gave are calls.
  passes.run("inline_calls", *module);
  passes.run("fold_constants", *module);
  // Before the updates: rewrites keep away from memory that is written.
  passes.run("canonicalise", *module);
  passes.run("lower_optimiser", *module);
  // Gradient rules repeat what the forward pass or another rule computes.
  passes.run("merge_common_subexpressions", *module);
  passes.run("eliminate_dead_ops", *module);
  forms.differentiated = module->clone();

  // --- placed ---
  passes.run("place_ops", *module);
  passes.run("verify_placed", *module);

  forms.program =
      passes.step("lower", [&] { return lowering::lower(*module, lower_options_of(options)); });
  check_memory_limit(forms.program);
  forms.placed = std::move(module);
  return forms;
}

}  // namespace poptorch::session
