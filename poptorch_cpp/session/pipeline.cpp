// The pipeline, to be read aloud. Where the order matters, a comment says why.
#include "session/pipeline.hpp"

#include <algorithm>
#include <bit>

#include "lowering/lower.hpp"
#include "partition/blocks.hpp"
#include "partition/place.hpp"
#include "session/host_overlap.hpp"
#include "session/memory_limit.hpp"
#include "session/pass_runner.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::session {
namespace {

using support::str;

// Of the loops over micro-batches, each.
constexpr int64_t kMostRounds = int64_t{1} << 30;

// By OutputMode.
constexpr program::Keep kKeepOf[] = {program::Keep::kFinal, program::Keep::kEveryN,
                                     program::Keep::kAll, program::Keep::kSum};

lowering::LowerOptions lower_options_of(const CompileOptions& options, const Compiled& forms,
                                        const transforms::Phasing& phasing,
                                        const HostOverlaps& overlaps) {
  std::vector<std::pair<program::Keep, int64_t>> keeps(options.whole_outputs,
                                                       {program::Keep::kAll, 1});
  for (const auto& [anchor, name] : forms.anchored) {
    const Anchor& asked = options.anchors[anchor];
    keeps.emplace_back(kKeepOf[static_cast<size_t>(asked.mode)], asked.period);
  }
  return {.device = options.device,
          .strategy = options.strategy,
          .phasing = phasing,
          .locations = options.locations,
          .io_tiles = options.io_tiles,
          .input_overlaps = overlaps.inputs,
          .output_overlaps = overlaps.outputs,
          .device_iterations = options.device_iterations,
          .gradient_accumulation = options.gradient_accumulation,
          .replicas = static_cast<int>(options.replication_factor),
          .input_group_size = static_cast<int>(options.input_group_size),
          .input_group_stride = static_cast<int>(options.input_group_stride),
          .keep = kKeepOf[static_cast<size_t>(options.output_mode)],
          .keep_period = options.output_period,
          .last_keeps = std::move(keeps),
          .random_seed = options.random_seed};
}

// The first op on the highest IPU; nullptr when that is IPU 0.
const ir::Op* user_of_highest_ipu(const ir::Module& module) {
  const ir::Op* user = nullptr;
  for (const ir::Op* op : module.main().ops()) {
    if (op->placement.ipu > (user ? user->placement.ipu : 0)) user = op;
  }
  return user;
}

void check_ipu_count(const ir::Module& module, const CompileOptions& options) {
  // A replica has the IPUs up to the highest that is used.
  const ir::Op* user = user_of_highest_ipu(module);
  const int64_t of_replica = user ? user->placement.ipu + int64_t{1} : 1;
  const auto needed = static_cast<uint64_t>(of_replica * options.replication_factor);
  const uint64_t reserved = std::bit_ceil(needed);
  if (reserved > program::kMaxIpusInAll) {
    throw support::UserError(str("[options] ", of_replica, " IPUs for each of ",
                                 options.replication_factor, " replicas are ", needed,
                                 " in all, but there are at most ", program::kMaxIpusInAll,
                                 ". Use fewer replicas or IPUs."));
  }
  if (needed == reserved || options.round_ipu_count) return;
  throw support::UserError(
      str("The model specifies the use of ", needed, " IPUs, however PopTorch must reserve a ",
          "minimum of ", reserved, " in order to allow the model to run, because PopTorch must ",
          "reserve a power of 2 of IPUs or the number in a whole system. Please reconfigure your ",
          "model to use a different number of IPUs or set ",
          "poptorch.Options().autoRoundNumIPUs(True).", user ? " " : "", highest_ipu(module)));
}

// A group is `size` replicas, `stride` apart; 0: all of them.
void check_group(const std::string& whose, int64_t size, int64_t stride,
                 const CompileOptions& options) {
  if (size == 0 || options.replication_factor % (size * stride) == 0) return;
  throw support::UserError(str("[replicas] the groups of ", whose, " are of ", size, " replicas, ",
                               stride, " apart, but there are ", options.replication_factor,
                               " replicas. The product of size and stride must divide them."));
}

// Of state and of collectives.
void check_groups(const ir::Module& module, const CompileOptions& options) {
  for (const auto& slot : module.states()) {
    if (slot->group_size == 0) continue;
    check_group(str("'", slot->name, "'"), slot->group_size, slot->group_stride, options);
  }
  for (const auto& graph : module.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (!op->def().find_attr("group_size")) continue;
      check_group(partition::describe(*op), op->attr<int64_t>("group_size"),
                  op->attr<int64_t>("group_stride"), options);
    }
  }
}

void check_options(const CompileOptions& options) {
  auto within = [](const char* name, int64_t value, int64_t most) {
    if (value < 1 || value > most) {
      throw support::UserError(str("[options] ", name, " is ", value,
                                   ". It must be at least 1 and at most ", most, "."));
    }
  };
  within("deviceIterations", options.device_iterations, kMostRounds);
  within("gradientAccumulation", options.gradient_accumulation, kMostRounds);
  within("replicationFactor", options.replication_factor, ir::kMaxReplicas);
  within("the output period", options.output_period, program::kMaxMicroBatches);
  within("the input group's size", options.input_group_size, ir::kMaxReplicas);
  within("the input group's stride", options.input_group_stride, ir::kMaxReplicas);
  check_group("the inputs", options.input_group_size, options.input_group_stride, options);
  const int64_t batches = options.device_iterations * options.gradient_accumulation;
  within("deviceIterations times gradientAccumulation", batches, program::kMaxMicroBatches);
  auto divides = [&](OutputMode mode, int64_t period) {
    if (mode != OutputMode::kEveryN || batches % period == 0) return;
    throw support::UserError(str("[options] OutputMode.EveryN keeps one in ", period, " of the ",
                                 batches, " micro-batches. Choose a period that divides ", batches,
                                 "."));
  };
  divides(options.output_mode, options.output_period);
  for (const Anchor& anchor : options.anchors) divides(anchor.mode, anchor.period);
}

// Says of parameters which replicas share their values.
void share_parameters(ir::Module& module, const CompileOptions& options) {
  for (const auto& [name, group] : options.replica_groups) {
    ir::StateSlot* slot = module.find_state(name);
    if (!slot) continue;
    slot->group_size = group.held_size();
    slot->group_stride = group.all_replicas ? 1 : group.stride;
  }
}

std::vector<std::string> anchor_patterns(const CompileOptions& options) {
  std::vector<std::string> patterns;
  for (const Anchor& anchor : options.anchors) patterns.push_back(anchor.name);
  return patterns;
}

}  // namespace

std::string highest_ipu(const ir::Module& placed) {
  const ir::Op* user = user_of_highest_ipu(placed);
  if (!user) return "";
  return str("The highest of a replica is IPU ", user->placement.ipu, ", of ",
             partition::describe(*user), ".");
}

transforms::PassContext pass_context(const CompileOptions& options) {
  return {.training = options.training,
          .strategy = options.strategy,
          .phasing = options.phasing,
          .device_iterations = options.device_iterations,
          .gradient_accumulation = options.gradient_accumulation,
          .replication_factor = options.replication_factor,
          .mean_reduction = options.mean_reduction,
          .stochastic_rounding = options.stochastic_rounding,
          .check_indices = options.check_indices,
          .optimiser = options.optimiser,
          .replica_groups = options.replica_groups,
          .recompute = options.recompute,
          .anchors = anchor_patterns(options)};
}

Compiled compile_to_program(std::unique_ptr<ir::Module> module, const CompileOptions& options,
                            const Progress& progress) {
  check_options(options);
  transforms::PassContext context = pass_context(options);
  PassRunner passes(context, progress, kCompileSteps);
  Compiled forms;

  passes.step("verify the traced form", [&] { passes.verify(*module); });
  partition::refuse_dead_blocks(*module);
  share_parameters(*module, options);
  check_groups(*module, options);
  forms.traced = module->clone();
  const HostOverlaps overlaps = take_host_overlaps(*module, options);

  // Calls first: everything behind sees through them. A call with its own gradient stays.
  passes.run("inline_calls", *module);
  passes.run("anchor_values", *module);
  passes.run("fold_constants", *module);
  passes.run("canonicalise", *module);
  passes.run("merge_common_subexpressions", *module);
  passes.run("eliminate_dead_ops", *module);
  // Once it is known which reads and writes there are.
  passes.run("check_indices", *module);
  forms.normal = module->clone();

  passes.run("differentiate", *module);
  // Again: gradients that the user gave are calls.
  passes.run("inline_calls", *module);
  passes.run("fold_constants", *module);
  // Before the updates: rewrites keep away from memory that is written.
  passes.run("canonicalise", *module);
  passes.run("anchor_gradients", *module);
  // Before the updates, whose gradients are the same in every replica and must stay so.
  passes.run("round_stochastically", *module);
  passes.run("lower_optimiser", *module);
  // Gradient rules repeat what the forward pass or another rule computes.
  passes.run("merge_common_subexpressions", *module);
  passes.run("eliminate_dead_ops", *module);
  // Last: a check is a use of its op's operands and results.
  if (options.floating_point_exceptions) passes.run("check_floats", *module);
  forms.differentiated = module->clone();

  forms.anchored = std::move(context.anchored);
  forms.anchor_names = std::move(context.anchor_names);
  passes.run("place_ops", *module);
  check_ipu_count(*module, options);
  // Before the copies: a copy belongs to the stage of what it copies.
  passes.run("assign_stages", *module);
  passes.run("recompute_forward", *module);
  passes.run("insert_copies", *module);
  // Behind the copies: they run in phases as well.
  passes.run("assign_phases", *module);
  passes.run("verify_placed", *module);

  forms.program = passes.step("lower", [&] {
    return lowering::lower(*module, lower_options_of(options, forms, context.phasing, overlaps));
  });
  passes.log_verifying();
  check_memory_limit(forms.program, options.memory_limit);
  forms.placed = std::move(module);
  return forms;
}

}  // namespace poptorch::session
