// The pipeline, to be read aloud. Where the order matters, a comment says why.
#include "compile/pipeline.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "account/memory_limit.hpp"
#include "compile/host_overlap.hpp"
#include "compile/pass_runner.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "lowering/lower.hpp"
#include "lowering/strategy.hpp"
#include "partition/blocks.hpp"
#include "partition/highest_ipu.hpp"
#include "partition/place.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/quiet.hpp"
#include "support/strings.hpp"

namespace poptorch::compile {
namespace {

using support::str;

std::string highest_ipu(const ir::Module& placed) {
  const partition::HighestIpu highest = partition::highest_ipu(placed);
  if (!highest.user) return "";
  return str("The highest IPU of a replica is IPU ", highest.number, ", used by ",
             partition::describe(*highest.user), ".");
}

// Checks the IPUs of all replicas that run in one process.
void check_ipu_count(const ir::Module& module, const HostOptions& options) {
  const int64_t all = module.execution().replication_factor;
  options.share.check(static_cast<int>(all));
  const int64_t replicas = all / options.share.instances;
  // A replica has all IPUs up to the highest that is used.
  const partition::HighestIpu highest = partition::highest_ipu(module);
  const int64_t of_replica = highest.number + int64_t{1};
  const auto needed = static_cast<uint64_t>(of_replica * replicas);
  const uint64_t reserved = std::bit_ceil(needed);
  if (reserved > program::kMaxIpusInAll) {
    throw support::UserError(str("[options] ", of_replica, " IPUs for each of ", replicas,
                                 " replicas make ", needed, " IPUs in all, but the limit is ",
                                 program::kMaxIpusInAll, ". Use fewer replicas or IPUs."));
  }
  if (needed == reserved || options.round_ipu_count) return;
  throw support::UserError(str(
      "The model specifies the use of ", needed, " IPUs, however PopTorch must reserve a ",
      "minimum of ", reserved, " in order to allow the model to run, because PopTorch must ",
      "reserve a power of 2 or maximum of 64 IPUs per process. Please reconfigure your model to ",
      "use a different number of IPUs or set ", "poptorch.Options().autoRoundNumIPUs(True).",
      highest.user ? " " : "", highest_ipu(module)));
}

// Checks groups of `size` replicas, `stride` apart; size 0: all replicas.
void check_group(const std::string& whose, int64_t size, int64_t stride, int64_t replicas) {
  if (size == 0 || replicas % (size * stride) == 0) return;
  throw support::UserError(
      str("[replicas] the groups of ", whose, " have ", size, " replicas with stride ", stride,
          ", but there are ", replicas,
          " replicas. The product of size and stride must divide this number."));
}

// Checks the groups of inputs, state and collectives.
void check_groups(const ir::Module& module) {
  const ir::Execution& execution = module.execution();
  const int64_t replicas = execution.replication_factor;
  check_group("the inputs", execution.input_group_size, execution.input_group_stride, replicas);
  for (const ir::ReplicaGroup& group : execution.replica_groups) {
    check_group(str("'", group.name, "'"), group.size, group.stride, replicas);
  }
  for (const auto& slot : module.states()) {
    if (slot->group_size == 0) continue;
    check_group(str("'", slot->name, "'"), slot->group_size, slot->group_stride, replicas);
  }
  for (const auto& graph : module.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (!op->def().find_attr("group_size")) continue;
      check_group(partition::describe(*op), op->attr<int64_t>("group_size"),
                  op->attr<int64_t>("group_stride"), replicas);
    }
  }
}

// Records which replicas share the values of each parameter.
void share_parameters(ir::Module& module) {
  for (const ir::ReplicaGroup& group : module.execution().replica_groups) {
    ir::StateSlot* slot = module.find_state(group.name);
    if (!slot) continue;
    slot->group_size = static_cast<int>(group.held_size());
    slot->group_stride = group.all_replicas ? 1 : static_cast<int>(group.stride);
  }
}

void normalise(PassRunner& passes, std::unique_ptr<ir::Module>& module) {
  take_host_overlaps(*module);
  // Calls come first: later passes then see through them. A call that names its gradient stays.
  passes.run("inline_calls", module);
  passes.run("anchor_values", module);
  passes.run("fold_constants", module);
  passes.run("canonicalise", module);
  passes.run("merge_common_subexpressions", module);
  passes.run("eliminate_dead_ops", module);
  // All reads and writes are known from here on.
  passes.run("check_indices", module);
}

void differentiate(PassRunner& passes, std::unique_ptr<ir::Module>& module) {
  passes.run("differentiate", module);
  // Gradients that the user gave are calls, so inlining runs again.
  passes.run("inline_calls", module);
  passes.run("fold_constants", module);
  // This runs before the updates: rewrites avoid memory that is written.
  passes.run("canonicalise", module);
  passes.run("anchor_gradients", module);
  passes.run("expand_batch_norms", module);
  passes.run("choose_partials", module);
  // This runs before the updates, whose gradients are the same in every replica and must stay so.
  passes.run("round_stochastically", module);
  passes.run("lower_optimiser", module);
  // Gradient rules repeat computations of the forward pass or of other rules.
  passes.run("merge_common_subexpressions", module);
  passes.run("eliminate_dead_ops", module);
  // This runs last: a check is a use of its op's operands and results.
  if (module->execution().floating_point_exceptions) passes.run("check_floats", module);
}

// Calls `check` when every op has an IPU.
void place(PassRunner& passes, std::unique_ptr<ir::Module>& module,
           const std::function<void()>& check) {
  const lowering::Strategy& strategy = lowering::find_strategy(module->execution().strategy);
  passes.run("place_ops", module);
  check();
  // A copy belongs to the stage of the op that it copies from, but runs in a separate phase.
  for (std::string_view pass : strategy.before_copies) passes.run(pass, module);
  passes.run("insert_copies", module);
  for (std::string_view pass : strategy.behind_copies) passes.run(pass, module);
  passes.run("verify_placed", module);
}

}  // namespace

int compile_steps(const ir::Module& module) {
  constexpr size_t kOfEvery = 25;
  const lowering::Strategy& strategy = lowering::find_strategy(module.execution().strategy);
  return static_cast<int>(kOfEvery + strategy.before_copies.size() + strategy.behind_copies.size());
}

Compiled compile_to_program(std::unique_ptr<ir::Module> module, const HostOptions& options,
                            const Progress& progress) {
  PassRunner passes(progress, compile_steps(*module));
  const int64_t warnings = support::warning_count();
  Compiled forms;

  passes.note_size(ops_of(*module));
  passes.step("verify the traced form", [&] { passes.verify(*module); });
  partition::refuse_dead_blocks(*module);
  share_parameters(*module);
  check_groups(*module);
  forms.traced = module->clone();
  forms.disabled_passes = passes.disabled();
  normalise(passes, module);
  differentiate(passes, module);
  place(passes, module, [&] { check_ipu_count(*module, options); });

  forms.program = passes.step("lower", [&] { return lowering::lower_unplanned(*module); });
  passes.note_size(program::instruction_count(forms.program));
  passes.step("plan memory", [&] {
    lowering::plan(forms.program, module->registry());
    forms.program = passes.read_again(std::move(forms.program), module->registry());
  });
  passes.log_verifying();
  forms.has_warned = support::warning_count() != warnings;
  account::check_memory_limit(forms.program, options.early_memory_limit());
  forms.execution = forms.traced->execution();
  forms.highest_ipu = highest_ipu(*module);
  forms.record.passes = passes.records();
  return forms;
}

Stages stages_of(const Compiled& compiled) {
  const support::Quiet quiet;
  PassRunner passes(*compiled.disabled_passes);
  Stages stages;
  std::unique_ptr<ir::Module> module = compiled.traced->clone();
  normalise(passes, module);
  stages.normal = module->clone();
  differentiate(passes, module);
  stages.differentiated = module->clone();
  place(passes, module, [] {});
  stages.placed = std::move(module);
  return stages;
}

}  // namespace poptorch::compile
