// The tables of execution.hpp, one row an option, and the lines printed from them.
#include <algorithm>

#include "ir/execution.hpp"
#include "ir/module.hpp"
#include "ir/option_table.hpp"

namespace poptorch::ir {
namespace {

using support::str;
using support::UserError;

template <typename T, typename... Enumerations>
using Rows = std::vector<OptionRow<T, Enumerations...>>;

constexpr int64_t kMostIterations = int64_t{1} << 30;
constexpr int64_t kMostPeriod = int64_t{1} << 40;

// Arguments of a row: it does not change after the module is compiled; a pass finds it.
constexpr bool kNever = false, kFound = true;

// Each is in the order of its enumeration.
const std::vector<std::string> kOutputModes = {"Final", "EveryN", "All", "Sum"};
const std::vector<std::string> kLivenesses = {"AlwaysLive", "OffChipAfterFwd",
                                              "OffChipAfterFwdNoOverlap", "OffChipAfterEachPhase"};

using E = Execution;
const Rows<E, OutputMode, Liveness> kExecution = {
    {"training", &E::training, "Compute gradients and update weights.", {}, "", kNever, kFound},
    {"strategy", &E::strategy, "How a model is executed on several IPUs."},
    {"device", &E::device, "The device that is modelled."},
    {"device_iterations",
     &E::device_iterations,
     "Iterations of the whole step that one call runs on the device.",
     {1, kMostIterations},
     "deviceIterations(device_iterations)"},
    {"gradient_accumulation",
     &E::gradient_accumulation,
     "Micro-batches whose gradients make one weight update.",
     {1, kMostIterations},
     "Training.gradientAccumulation(gradient_accumulation)"},
    {"replication_factor",
     &E::replication_factor,
     "Number of copies of the model, each on separate IPUs.",
     {1, kMaxReplicas},
     "replicationFactor(replication_factor)"},
    {"link_domain",
     &E::link_domain,
     "Number of IPUs that IPU-Links connect; GW-Links connect to others.",
     {1, kLinkDomain}},
    {"sharding_replicas",
     &E::sharding_replicas,
     "Number of replicas over which tensors are sharded; 0: all.",
     {0, kMaxReplicas}},
    {"input_group_size",
     &E::input_group_size,
     "Number of replicas that read the same inputs.",
     {1, kMaxReplicas}},
    {"input_group_stride",
     &E::input_group_stride,
     "Distance between two replicas of such a group.",
     {1, kMaxReplicas}},
    {"output_mode",
     &E::output_mode,
     "Which micro-batches of a run the outputs return.",
     {.words = kOutputModes}},
    {"output_period",
     &E::output_period,
     "With EveryN: one in so many micro-batches.",
     {1, kMostPeriod}},
    {"whole_outputs",
     &E::whole_outputs,
     "Number of outputs, counted from the last, that return every micro-batch.",
     {0, INT32_MAX},
     "",
     kNever,
     kFound},
    {"mean_reduction", &E::mean_reduction,
     "Gradients of micro-batches and replicas are averaged, not added."},
    {"recompute", &E::recompute, "Backward stages of a pipeline recompute forward values."},
    {"recompute_alone", &E::recompute_alone,
     "Without a pipeline, and in its last stage, backward passes recompute from checkpoints."},
    {"stochastic_rounding",
     &E::stochastic_rounding,
     "Round float16 results up or down at random, in proportion.",
     {},
     "Precision.enableStochasticRounding(enabled)"},
    {"floating_point_exceptions",
     &E::floating_point_exceptions,
     "Stop with an error at invalid operations, division by zero and overflow; slow.",
     {},
     "Precision.enableFloatingPointExceptions(enabled)"},
    {"check_indices",
     &E::check_indices,
     "Stop with an error where an index of gather, scatter, one_hot or the like is out of range, "
     "which otherwise reads zeros and writes nothing.",
     {},
     "Emulator.checkIndices(enabled)"},
    {"random_seed", &E::random_seed, "Seed of dropout and other random numbers.", {}, {}, true},
    {"liveness", &E::liveness, "What moves off chip between phases.", {.words = kLivenesses}},
    {"separate_backward_phase", &E::separate_backward_phase,
     "The backward pass begins in a separate phase."},
    {"separate_host_sync", &E::separate_host_sync,
     "IPUs of a pipeline compute while one of them exchanges data with the host."},
    {"outline", &E::outline, "Ops of the same kind, shapes and types share their code."},
    {"io_tiles",
     &E::io_tiles,
     "Number of tiles of each IPU reserved for I/O.",
     {.least = 32, .most = 192, .even = true},
     "TensorLocations.numIOTiles(num_tiles)"},
    {"half_partials", &E::half_partials,
     "Partial sums of products in float16 are rounded to float16 after every 16 terms; by default "
     "they are float32."},
    {"memory_proportions", &E::memory_proportions,
     "By IPU, the share of a tile's memory for the operands and partial sums of a product."},
    {"forward_stages",
     &E::forward_stages,
     "Found: the number of forward stages of the pipeline.",
     {0, kMaxStages},
     "",
     kNever,
     kFound},
    {"last_forward_phase",
     &E::last_forward_phase,
     "Found: the number of the last forward phase.",
     {0, kMaxStages},
     "",
     kNever,
     kFound},
    {"input_overlaps",
     &E::input_overlaps,
     "Found: by input, the loop that its transfers overlap with.",
     {},
     "",
     kNever,
     kFound},
    {"output_overlaps",
     &E::output_overlaps,
     "Found: by output, the loop that its transfers overlap with.",
     {},
     "",
     kNever,
     kFound},
};

using L = TensorLocation;
const Rows<L> kLocation = {
    {"on_chip",
     &L::on_chip,
     "On chip (True), in Streaming Memory (False) or by default (None).",
     {},
     "TensorLocationSettings.useOnChipStorage(use=true)"},
    {"least_off_chip",
     &L::least_off_chip,
     "Tensors of fewer elements always stay on chip.",
     {0, INT64_MAX - 1},
     "TensorLocationSettings.minElementsForOffChip(min_elements)"},
    {"sharded",
     &L::sharded,
     "Shard over replicas.",
     {},
     "TensorLocationSettings.useReplicatedTensorSharding(use=true)"},
    {"least_sharded",
     &L::least_sharded,
     "Tensors of fewer elements are never sharded over replicas.",
     {0, INT64_MAX - 1},
     "TensorLocationSettings.minElementsForReplicatedTensorSharding(min_elements)"},
    {"io_tiles_load",
     &L::io_tiles_load,
     "Load through the IO tiles, if there are any.",
     {},
     "TensorLocationSettings.useIOTilesToLoad(use=true)"},
    {"io_tiles_store",
     &L::io_tiles_store,
     "Store through the IO tiles, if there are any.",
     {},
     "TensorLocationSettings.useIOTilesToStore(use=true)"},
};

const Rows<ReplicaGroup> kReplicaGroup = {
    {"size",
     &ReplicaGroup::size,
     "Number of replicas that share a value; 0: all.",
     {0, kMaxReplicas}},
    {"stride",
     &ReplicaGroup::stride,
     "Distance between two replicas of a group.",
     {1, kMaxReplicas}},
    {"all_replicas", &ReplicaGroup::all_replicas, "The host reads a value of each replica."},
};

const Rows<Anchor, OutputMode> kAnchor = {
    {"mode", &Anchor::mode, "Which micro-batches of a run are returned.", {.words = kOutputModes}},
    {"period", &Anchor::period, "With EveryN: one in so many micro-batches.", {1, kMostPeriod}},
};

const Rows<Anchored> kAnchored = {
    {"anchor",
     &Anchored::anchor,
     "Found: the anchor that requested the output.",
     {0, INT32_MAX},
     "",
     kNever,
     kFound},
};

using O = OptimiserSpec;
const Rows<O> kOptimiser = {
    {"loss_scaling", &O::loss_scaling, "Factor of the loss. Gradients are divided by it."},
    {"loss_scaling_variable", &O::loss_scaling_variable,
     "The loss scaling may change after compilation."},
    {"automatic_loss_scaling", &O::automatic_loss_scaling,
     "The loss scaling adapts to the gradients."},
    {"running_mean", &O::running_mean, "Gradients are averaged while they are accumulated."},
    {"max_grad_norm", &O::max_grad_norm, "Limit of the norm of all gradients together."},
    {"accumulator_type", &O::accumulator_type, "Type of accumulated gradients."},
    {"first_moment_type", &O::first_moment_type, "Type of the first moment."},
    {"second_moment_type", &O::second_moment_type, "Type of the second moment."},
};

using G = OptimiserGroup;
const Rows<G> kOptimiserGroup = {
    {"parameters", &G::parameters, "Parameters that the group updates."},
    {"variable", &G::variable, "Values that may change after compilation."},
};

TensorLocation& location_named(Execution& execution, const std::string& name) {
  TensorLocations& all = execution.locations;
  const std::pair<std::string, TensorLocation*> kinds[] = {
      {"weights", &all.weights},
      {"activations", &all.activations},
      {"optimiser_state", &all.optimiser_state},
      {"accumulators", &all.accumulators}};
  std::vector<std::string> known;
  for (const auto& [kind, location] : kinds) {
    if (kind == name) return *location;
    known.push_back(kind);
  }
  option_value::refuse_name(name, known);
}

constexpr const char* kLocations[] = {"weights", "activations", "optimiser_state", "accumulators"};

template <typename T, typename Row>
void add(std::vector<T>& into, const std::vector<Row>& rows, const ExecutionLine& line) {
  T made;
  made.name = line.name;
  take_attrs(rows, made, line.attrs);
  into.push_back(std::move(made));
}

void add_group(Execution& execution, const ExecutionLine& line) {
  if (!execution.optimiser) {
    throw UserError("[execution] an optimiser_group must follow its optimiser.");
  }
  Attrs options;
  OptimiserGroup group;
  for (const auto& [option, attr] : line.attrs) {
    double value = 0;
    if (option.text() == "parameters" || option.text() == "variable") {
      options.set(option, attr);
    } else if (option_value::take(attr, value)) {
      group.values[option.text()] = value;
    } else {
      option_value::refuse(option.text(), attr, {}, "float");
    }
  }
  take_attrs(kOptimiserGroup, group, options);
  execution.optimiser->groups.push_back(std::move(group));
}

using Take = void (*)(Execution&, const ExecutionLine&);
const std::pair<std::string, Take> kKeywords[] = {
    {"execution",
     [](Execution& e, const ExecutionLine& line) { take_attrs(kExecution, e, line.attrs); }},
    {"location",
     [](Execution& e, const ExecutionLine& line) {
       take_attrs(kLocation, location_named(e, line.name), line.attrs);
     }},
    {"replica_group",
     [](Execution& e, const ExecutionLine& line) { add(e.replica_groups, kReplicaGroup, line); }},
    {"anchor", [](Execution& e, const ExecutionLine& line) { add(e.anchors, kAnchor, line); }},
    {"anchored", [](Execution& e, const ExecutionLine& line) { add(e.anchored, kAnchored, line); }},
    {"optimiser",
     [](Execution& e, const ExecutionLine& line) {
       OptimiserSpec made;
       made.kind = line.name;
       take_attrs(kOptimiser, made, line.attrs);
       e.optimiser = std::move(made);
     }},
    {"optimiser_group", &add_group},
};

}  // namespace

std::vector<ExecutionLine> lines_of(const Execution& execution) {
  std::vector<ExecutionLine> lines;
  auto note = [&](const char* keyword, const std::string& name, Attrs attrs) {
    lines.push_back({keyword, name, std::move(attrs)});
  };
  const Attrs plain = attrs_of(kExecution, execution);
  if (!plain.empty()) note("execution", "", plain);
  Execution copy = execution;
  for (const char* kind : kLocations) {
    Attrs attrs = attrs_of(kLocation, location_named(copy, kind));
    if (!attrs.empty()) note("location", kind, std::move(attrs));
  }
  for (const auto& group : execution.replica_groups) {
    note("replica_group", group.name, attrs_of(kReplicaGroup, group));
  }
  for (const auto& anchor : execution.anchors) {
    note("anchor", anchor.name, attrs_of(kAnchor, anchor));
  }
  for (const auto& one : execution.anchored) note("anchored", one.name, attrs_of(kAnchored, one));
  if (!execution.optimiser) return lines;
  note("optimiser", execution.optimiser->kind, attrs_of(kOptimiser, *execution.optimiser));
  for (size_t i = 0; i < execution.optimiser->groups.size(); ++i) {
    const OptimiserGroup& group = execution.optimiser->groups[i];
    Attrs attrs = attrs_of(kOptimiserGroup, group);
    for (const auto& [name, value] : group.values) attrs.set(name, value);
    note("optimiser_group", std::to_string(i), std::move(attrs));
  }
  return lines;
}

void take_line(Execution& execution, const ExecutionLine& line) {
  for (const auto& [keyword, take] : kKeywords) {
    if (keyword != line.keyword) continue;
    if ((keyword == "execution") != line.name.empty()) {
      throw UserError(str("[execution] ", keyword, line.name.empty() ? " needs a" : " takes no",
                          " name. It is written as in docs/execution.md."));
    }
    return take(execution, line);
  }
  std::vector<std::string> known;
  for (const auto& row : kKeywords) known.push_back(row.first);
  option_value::refuse_name(line.keyword, known);
}

bool is_execution_keyword(const std::string& word) {
  return std::any_of(std::begin(kKeywords), std::end(kKeywords),
                     [&](const auto& row) { return row.first == word; });
}

std::vector<OptionText> execution_table() {
  std::vector<OptionText> all;
  auto add = [&](const std::vector<OptionText>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  add(texts_of("execution", kExecution, Execution()));
  add(texts_of("location", kLocation, TensorLocation()));
  add(texts_of("replica_group", kReplicaGroup, ReplicaGroup()));
  add(texts_of("anchor", kAnchor, Anchor()));
  add(texts_of("anchored", kAnchored, Anchored()));
  add(texts_of("optimiser", kOptimiser, OptimiserSpec()));
  add(texts_of("optimiser_group", kOptimiserGroup, OptimiserGroup()));
  return all;
}

const std::string& word(OutputMode mode) { return kOutputModes.at(static_cast<size_t>(mode)); }

const std::string& word(Liveness liveness) { return kLivenesses.at(static_cast<size_t>(liveness)); }

void check(const Execution& e, size_t outputs) {
  check_ranges(kExecution, e);
  for (const ReplicaGroup& group : e.replica_groups) check_ranges(kReplicaGroup, group);
  for (const Anchor& anchor : e.anchors) check_ranges(kAnchor, anchor);
  const int64_t batches = e.micro_batches();
  if (batches > kMostPeriod) {
    throw UserError(str("[execution] device_iterations times gradient_accumulation are ", batches,
                        " micro-batches. There can be at most ", kMostPeriod, "."));
  }
  auto divides = [&](OutputMode mode, int64_t period) {
    if (mode != OutputMode::kEveryN || batches % period == 0) return;
    throw UserError(str("[execution] OutputMode.EveryN keeps one in ", period, " of the ", batches,
                        " micro-batches. Choose a period that divides ", batches, "."));
  };
  divides(e.output_mode, e.output_period);
  for (const Anchor& anchor : e.anchors) divides(anchor.mode, anchor.period);
  if (static_cast<size_t>(e.whole_outputs) + e.anchored.size() > outputs) {
    throw UserError(str("[execution] ", e.whole_outputs, " whole outputs and ", e.anchored.size(),
                        " anchored ones are more than main's ", outputs, "."));
  }
  for (const Anchored& one : e.anchored) {
    if (one.anchor >= 0 && static_cast<size_t>(one.anchor) < e.anchors.size()) continue;
    throw UserError(str("[execution] output ", support::quoted(one.name), " names anchor ",
                        one.anchor, ", but there are ", e.anchors.size(), "."));
  }
  for (size_t ipu = 0; ipu < e.memory_proportions.size(); ++ipu) e.memory_proportion(ipu);
  for (const Strings* overlaps : {&e.input_overlaps, &e.output_overlaps}) {
    for (const std::string& loop : *overlaps) {
      if (loop.empty() || loop == "accumulation_loop" || loop == "device_iteration_loop") continue;
      throw UserError(str("[execution] there is no loop ", support::quoted(loop),
                          ". There are accumulation_loop and device_iteration_loop."));
    }
  }
}

}  // namespace poptorch::ir
