// Turns options into lines of the description of an execution, which the compiler's tables check.
#include "frontends/torch/libtorch/options.hpp"

#include <algorithm>

#include "frontends/torch/libtorch/enumerations.hpp"
#include "support/error.hpp"

namespace poptorch {
namespace {

using support::UserError;

constexpr const char* kHost = "host";  // the keyword of options that do not belong to a module

ir::Attrs attrs_of(const OptionValues& values) {
  ir::Attrs attrs;
  for (const auto& [name, value] : values) {
    std::visit([&](const auto& plain) { attrs.set(name, plain); }, value);
  }
  return attrs;
}

void take_host(compile::HostOptions& into, const OptionValues& values) {
  ir::take_attrs(compile::host_option_rows(), into, attrs_of(values));
}

// Returns the keyword of an option's line. UserError for an unknown option.
std::string keyword_of(const std::string& option) {
  std::vector<std::string> known;
  for (const ir::OptionText& row : ir::execution_table()) {
    if ((row.keyword != "execution" && row.keyword != "optimiser") || row.found) continue;
    if (row.name == option) return row.keyword;
    known.push_back(row.name);
  }
  for (const auto& row : compile::host_option_rows()) {
    if (row.name == option) return kHost;
    known.emplace_back(row.name);
  }
  ir::option_value::refuse_name(option, known);
}

// Throws a UserError unless the table accepts the line.
void check_line(const std::string& keyword, const std::string& name, const OptionValues& values) {
  if (keyword == kHost) {
    compile::HostOptions scratch;
    return take_host(scratch, values);
  }
  ir::Execution scratch;
  ir::take_line(scratch, {keyword, name, attrs_of(values)});
}

}  // namespace

TensorLocationSettings& TensorLocationSettings::set(const std::string& option,
                                                    const OptionValue& value) {
  check_line("location", "weights", {{option, value}});
  values_.insert_or_assign(option, value);
  return *this;
}

using L = TensorLocationSettings;
L& L::minElementsForOffChip(int64_t count) { return set("least_off_chip", count); }
L& L::minElementsForReplicatedTensorSharding(int64_t count) { return set("least_sharded", count); }
L& L::useOnChipStorage(bool use) { return set("on_chip", use); }
L& L::useReplicatedTensorSharding(bool use) { return set("sharded", use); }
L& L::useIOTilesToLoad(bool use) { return set("io_tiles_load", use); }
L& L::useIOTilesToStore(bool use) { return set("io_tiles_store", use); }

Options& Options::set(const std::string& option, const OptionValue& value) {
  const std::string keyword = keyword_of(option);
  check_line(keyword, keyword == "optimiser" ? "sgd" : "", {{option, value}});
  lines_.push_back({keyword, "", {{option, value}}});
  return *this;
}

Options& Options::location(const std::string& kind, const TensorLocationSettings& settings) {
  std::erase_if(lines_, [&](const Line& line) { return line.name == kind; });
  lines_.push_back({"location", kind, settings.values_});
  return *this;
}

const OptionValue* Options::find(const std::string& option) const {
  const OptionValue* found = nullptr;
  for (const Line& line : lines_) {
    const auto it = line.values.find(option);
    if (line.name.empty() && it != line.values.end()) found = &it->second;
  }
  return found;
}

using O = Options;
O& O::deviceIterations(int64_t count) { return set("device_iterations", count); }
O& O::gradientAccumulation(int64_t count) { return set("gradient_accumulation", count); }
O& O::replicationFactor(int64_t count) { return set("replication_factor", count); }
O& O::autoRoundNumIPUs(bool round) { return set("round_ipu_count", round); }
O& O::randomSeed(uint64_t seed) { return set("random_seed", static_cast<int64_t>(seed)); }
O& O::enableFloatingPointExceptions(bool on) { return set("floating_point_exceptions", on); }
O& O::enableStochasticRounding(bool on) { return set("stochastic_rounding", on); }
O& O::setAutomaticLossScaling(bool on) { return set("automatic_loss_scaling", on); }
O& O::numIOTiles(int64_t count) { return set("io_tiles", count); }
O& O::checkIndices(bool check) { return set("check_indices", check); }
O& O::setActivationLocation(const L& settings) { return location("activations", settings); }
O& O::setWeightLocation(const L& settings) { return location("weights", settings); }
O& O::setOptimizerLocation(const L& settings) { return location("optimiser_state", settings); }
O& O::setAccumulatorLocation(const L& settings) { return location("accumulators", settings); }

Options& Options::syncPattern(SyncPattern pattern) {
  return set("separate_host_sync", pattern == SyncPattern::SinglePipeline);
}

Options& Options::memoryLimit(MemoryLimit limit) {
  return set("memory_limit", account::word(core_value(limit)));
}

Options& Options::accumulationAndReplicationReductionType(ReductionType type) {
  return set("mean_reduction", type == ReductionType::Mean);
}

Options& Options::setMeanAccumulationAndReplicationReductionStrategy(
    MeanReductionStrategy strategy) {
  return set("running_mean", strategy == MeanReductionStrategy::Running);
}

Options& Options::outputMode(OutputMode mode, int64_t period) {
  std::erase_if(lines_, [](const Line& line) { return line.values.contains("output_mode"); });
  if (mode != OutputMode::Default) set("output_mode", ir::word(core_value(mode)));
  return set("output_period", mode == OutputMode::EveryN ? period : 1);
}

Options& Options::inputReplicaGrouping(int64_t size, CommGroupType type) {
  ir::Execution made;
  if (const OptionValue* replicas = find("replication_factor")) {
    made.replication_factor = std::get<int64_t>(*replicas);
  }
  ir::group_inputs(made, core_value(type), size);
  set("input_group_size", made.input_group_size);
  return set("input_group_stride", made.input_group_stride);
}

Options& Options::executionStrategy(const ExecutionStrategy& strategy) {
  strategy_ = strategy;
  return *this;
}

Options& Options::broadcastBuffers(bool broadcast) {
  broadcast_buffers_ = broadcast;
  return *this;
}

Options& Options::updatableNamedBuffers(const std::vector<std::string>& names) {
  updatable_buffers_ = names;
  return *this;
}

Options& Options::anchorTensor(const std::string& short_name, const std::string& long_name,
                               OutputMode mode, int64_t period) {
  check_line("anchor", long_name, {{"period", period}});
  std::erase_if(anchors_, [&](const auto& anchor) { return anchor.first == short_name; });
  anchors_.push_back({short_name, {long_name, mode, period}});
  return *this;
}

Description::Description(const Options& options, bool training)
    : strategy(options.strategy_),
      updatable_buffers(options.updatable_buffers_),
      broadcast_buffers(options.broadcast_buffers_) {
  execution.training = training;
  execution.strategy = strategy.name();
  execution.output_mode = training ? ir::OutputMode::kFinal : ir::OutputMode::kAll;
  execution.liveness = core_value(strategy.liveness());
  execution.separate_backward_phase = strategy.has_separate_backward_phase();
  for (const auto& [keyword, name, values] : options.lines_) {
    const ir::Attrs attrs = attrs_of(values);
    if (keyword == kHost) {
      take_host(host, values);
    } else if (keyword == "optimiser") {
      for (const auto& [option, value] : attrs) of_optimiser.set(option, value);
    } else {
      ir::take_line(execution, {keyword, name, attrs});
    }
  }
  for (const auto& [short_name, request] : options.anchors_) {
    const bool own = request.mode != OutputMode::Default;
    ir::Anchor anchor{request.long_name, execution.output_mode, execution.output_period};
    if (own) anchor.mode = core_value(request.mode);
    if (own) anchor.period = request.mode == OutputMode::EveryN ? request.period : 1;
    execution.anchors.push_back(anchor);
    anchors.push_back(short_name);
  }
  const std::string defect = ir::wrapper_defect(execution);
  if (!defect.empty()) throw UserError(defect);
}

ir::OptimiserSpec Description::with_options(const ir::OptimiserSpec& optimiser) const {
  ir::Execution plain, made;
  plain.optimiser = optimiser;
  for (ir::ExecutionLine& line : ir::lines_of(plain)) {
    if (line.keyword == "optimiser") {
      for (const auto& [option, value] : of_optimiser) line.attrs.set(option, value);
    }
    ir::take_line(made, line);
  }
  ir::OptimiserSpec spec = *made.optimiser;
  spec.running_mean = execution.mean_reduction && (spec.running_mean || optimiser.running_mean);
  return spec;
}

}  // namespace poptorch
