// The fields of session::CompileOptions, one by one.
#include "bindings/compile_options.hpp"

#include <pybind11/stl.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/error.hpp"

namespace poptorch::bindings {

namespace py = pybind11;

namespace {

template <typename T>
void take(const py::dict& from, const char* key, T& into) {
  if (from.contains(key)) into = from[key].cast<T>();
}

ir::DType dtype_named(const py::dict& from, const char* key) {
  if (!from.contains(key)) return ir::DType::kF32;
  const auto name = from[key].cast<std::string>();
  const auto dtype = ir::dtype_from_name(name);
  if (!dtype) throw support::UserError("[optimiser] unknown dtype '" + name + "'.");
  return *dtype;
}

transforms::OptimiserSpec optimiser_of(const py::dict& given) {
  transforms::OptimiserSpec spec;
  take(given, "kind", spec.kind);
  for (const auto& item : given["groups"].cast<py::list>()) {
    const auto group = item.cast<py::dict>();
    transforms::OptimiserGroup out;
    take(group, "values", out.values);
    for (const auto& name : group["variable"].cast<std::vector<std::string>>()) {
      out.variable.insert(name);
    }
    take(group, "parameters", out.parameters);
    spec.groups.push_back(std::move(out));
  }
  take(given, "loss_scaling", spec.loss_scaling);
  take(given, "loss_scaling_variable", spec.loss_scaling_variable);
  take(given, "automatic_loss_scaling", spec.automatic_loss_scaling);
  take(given, "running_mean", spec.running_mean);
  take(given, "max_grad_norm", spec.max_grad_norm);
  spec.accumulator_type = dtype_named(given, "accumulator_type");
  spec.first_moment_type = dtype_named(given, "first_moment_type");
  spec.second_moment_type = dtype_named(given, "second_moment_type");
  return spec;
}

transforms::Strategy strategy_of(const py::dict& given) {
  std::string name = "pipelined";
  take(given, "strategy", name);
  static const std::pair<const char*, transforms::Strategy> kNames[] = {
      {"pipelined", transforms::Strategy::kPipelined},
      {"sharded", transforms::Strategy::kSharded},
      {"serial_phased", transforms::Strategy::kSerialPhased},
      {"parallel_phased", transforms::Strategy::kParallelPhased}};
  for (const auto& [known, strategy] : kNames) {
    if (name == known) return strategy;
  }
  throw support::UserError("[options] unknown strategy '" + name + "'.");
}

target::TensorLocation location_of(const py::dict& given) {
  target::TensorLocation location;
  if (!given["on_chip"].is_none()) location.on_chip = given["on_chip"].cast<bool>();
  take(given, "least_off_chip", location.least_off_chip);
  take(given, "sharded", location.sharded);
  take(given, "least_sharded", location.least_sharded);
  take(given, "io_tiles_load", location.io_tiles_load);
  take(given, "io_tiles_store", location.io_tiles_store);
  return location;
}

target::TensorLocations locations_of(const py::dict& given) {
  target::TensorLocations locations;
  std::pair<const char*, target::TensorLocation*> kinds[] = {
      {"weights", &locations.weights},
      {"activations", &locations.activations},
      {"optimiser_state", &locations.optimiser_state},
      {"accumulators", &locations.accumulators}};
  for (auto& [kind, location] : kinds) {
    if (given.contains(kind)) *location = location_of(given[kind].cast<py::dict>());
  }
  return locations;
}

}  // namespace

session::CompileOptions options_of(const py::dict& given,
                                   const std::optional<py::dict>& optimiser) {
  session::CompileOptions options;
  take(given, "training", options.training);
  options.strategy = strategy_of(given);
  int liveness = 0;
  take(given, "liveness", liveness);
  options.phasing.liveness = static_cast<transforms::Liveness>(liveness);
  take(given, "separate_backward_phase", options.phasing.separate_backward);
  if (given.contains("locations")) {
    options.locations = locations_of(given["locations"].cast<py::dict>());
  }
  take(given, "io_tiles", options.io_tiles);
  take(given, "round_ipu_count", options.round_ipu_count);
  take(given, "device_iterations", options.device_iterations);
  take(given, "gradient_accumulation", options.gradient_accumulation);
  take(given, "replication_factor", options.replication_factor);
  int mode = static_cast<int>(options.output_mode);
  take(given, "output_mode", mode);
  options.output_mode = static_cast<session::OutputMode>(mode);
  take(given, "output_period", options.output_period);
  take(given, "mean_reduction", options.mean_reduction);
  take(given, "random_seed", options.random_seed);
  take(given, "input_group_size", options.input_group_size);
  take(given, "input_group_stride", options.input_group_stride);
  take(given, "floating_point_exceptions", options.floating_point_exceptions);
  take(given, "check_indices", options.check_indices);
  take(given, "recompute", options.recompute);
  if (given.contains("replica_groups")) {
    using Given = std::map<std::string, std::tuple<int, int, bool>>;
    for (const auto& [name, group] : given["replica_groups"].cast<Given>()) {
      const auto& [size, stride, all_replicas] = group;
      options.replica_groups[name] = {size, stride, all_replicas};
    }
  }
  take(given, "stochastic_rounding", options.stochastic_rounding);
  if (given.contains("anchors")) {
    using Given = std::vector<std::tuple<std::string, int, int64_t>>;
    for (const auto& [name, keep, period] : given["anchors"].cast<Given>()) {
      options.anchors.push_back({name, static_cast<session::OutputMode>(keep), period});
    }
  }
  take(given, "threads", options.threads);
  take(given, "device", options.device);
  take(given, "memory_limit", options.memory_limit);
  if (optimiser) options.optimiser = optimiser_of(*optimiser);
  return options;
}

}  // namespace poptorch::bindings
