// Implements report.hpp.
#include "bindings/report.hpp"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using namespace pybind11::literals;

py::dict ipu_dict(const session::MemoryReport& memory, const session::WorkReport& work) {
  return py::dict(
      "state_bytes"_a = memory.state_bytes, "arena_bytes"_a = memory.arena_bytes,
      "stash_bytes"_a = memory.stash_bytes, "code_bytes"_a = memory.code_bytes,
      "capacity_bytes"_a = memory.capacity_bytes, "needed_bytes"_a = memory.needed(),
      "weight_bytes"_a = memory.weight_bytes, "optimiser_bytes"_a = memory.optimiser_bytes,
      "accumulator_bytes"_a = memory.accumulator_bytes, "constant_bytes"_a = memory.constant_bytes,
      "compute_cycles"_a = work.compute_cycles, "link_cycles"_a = work.link_cycles,
      "host_cycles"_a = work.host_cycles, "streaming_cycles"_a = work.streaming_cycles,
      "idle_cycles"_a = work.idle_cycles, "link_bytes"_a = work.link_bytes,
      "host_bytes"_a = work.host_bytes, "streaming_bytes"_a = work.streaming_bytes);
}

}  // namespace

py::dict report_dict(const session::Report& report) {
  py::list ipus, stages, ops;
  for (size_t i = 0; i < report.ipus.size(); ++i) {
    ipus.append(ipu_dict(report.ipus[i], report.work[i]));
  }
  for (const session::StageReport& stage : report.stages) {
    stages.append(
        py::dict("stage"_a = stage.stage, "ipu"_a = stage.ipu, "cycles"_a = stage.cycles));
  }
  for (const session::OpReport& op : report.ops) {
    ops.append(py::dict("ipu"_a = op.ipu, "stage"_a = op.stage, "module"_a = op.module,
                        "op"_a = op.op, "count"_a = op.count, "cycles"_a = op.cycles));
  }
  return py::dict(
      "ipus"_a = ipus, "stages"_a = stages, "ops"_a = ops, "device"_a = report.device,
      "replicas"_a = report.replicas, "idle_ipus"_a = report.idle_ipus,
      "streaming_bytes"_a = report.streaming_bytes,
      "streaming_capacity"_a = report.streaming_capacity, "bubbles"_a = report.bubbles,
      "bottleneck_stage"_a = report.bottleneck_stage, "cycles_per_run"_a = report.cycles_per_run,
      "seconds_per_run"_a = report.seconds_per_run, "generic_ops"_a = report.generic_ops);
}

py::dict profile_dict(const session::Profile& profile) {
  py::list segments;
  for (const session::Segment& segment : profile.segments) {
    segments.append(
        py::dict("module"_a = segment.module, "forward_cycles"_a = segment.forward_cycles,
                 "backward_cycles"_a = segment.backward_cycles, "parameters"_a = segment.parameters,
                 "activation_bytes"_a = segment.activation_bytes,
                 "boundary_bytes"_a = segment.boundary_bytes,
                 "boundary_cycles"_a = segment.boundary_cycles));
  }
  return py::dict("segments"_a = segments, "states"_a = profile.states,
                  "capacity_bytes"_a = profile.capacity_bytes);
}

}  // namespace poptorch::bindings
