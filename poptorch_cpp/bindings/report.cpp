#include "bindings/report.hpp"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using namespace pybind11::literals;

py::dict ipu_dict(const account::MemoryReport& memory, const account::WorkReport& work) {
  return py::dict(
      "state_bytes"_a = memory.state_bytes, "arena_bytes"_a = memory.arena_bytes,
      "stash_bytes"_a = memory.stash_bytes, "code_bytes"_a = memory.code_bytes,
      "capacity_bytes"_a = memory.capacity_bytes, "needed_bytes"_a = memory.needed(),
      "weight_bytes"_a = memory.weight_bytes, "optimiser_bytes"_a = memory.optimiser_bytes,
      "accumulator_bytes"_a = memory.accumulator_bytes, "constant_bytes"_a = memory.constant_bytes,
      "compute_cycles"_a = work.compute_cycles, "link_cycles"_a = work.link_cycles,
      "host_cycles"_a = work.host_cycles, "streaming_cycles"_a = work.streaming_cycles,
      "gateway_cycles"_a = work.gateway_cycles, "gateway_bytes"_a = work.gateway_bytes,
      "idle_cycles"_a = work.idle_cycles, "overlapped_cycles"_a = work.overlapped_cycles,
      "link_bytes"_a = work.link_bytes, "host_bytes"_a = work.host_bytes,
      "streaming_bytes"_a = work.streaming_bytes);
}

py::list stream_list(const std::vector<account::StreamReport>& streams) {
  py::list made;
  for (const account::StreamReport& stream : streams) {
    made.append(py::dict("name"_a = stream.name, "to_device"_a = stream.to_device,
                         "overlap"_a = stream.overlap, "overlaps"_a = stream.overlaps));
  }
  return made;
}

}  // namespace

py::dict report_dict(const account::Report& report) {
  py::list ipus, stages, ops, collectives;
  py::dict reference_kernels;
  for (size_t i = 0; i < report.ipus.size(); ++i) {
    ipus.append(ipu_dict(report.ipus[i], report.work[i]));
  }
  for (const account::StageReport& stage : report.stages) {
    stages.append(py::dict("stage"_a = stage.stage, "ipu"_a = stage.ipu, "cycles"_a = stage.cycles,
                           "blocks"_a = stage.blocks));
  }
  for (const account::OpReport& op : report.ops) {
    ops.append(py::dict("ipu"_a = op.ipu, "stage"_a = op.stage, "block"_a = op.block,
                        "module"_a = op.module, "op"_a = op.op, "count"_a = op.count,
                        "cycles"_a = op.cycles));
  }
  for (const account::CollectiveReport& part : report.collectives) {
    collectives.append(py::dict("ipu"_a = part.ipu, "module"_a = part.module, "op"_a = part.op,
                                "part"_a = part.part, "links"_a = part.links,
                                "members"_a = part.members, "count"_a = part.count,
                                "bytes"_a = part.bytes, "cycles"_a = part.cycles));
  }
  for (const auto& [op, share] : report.reference_kernels) reference_kernels[py::str(op)] = share;
  return py::dict("ipus"_a = ipus, "streams"_a = stream_list(report.streams), "stages"_a = stages,
                  "ops"_a = ops, "collectives"_a = collectives, "instances"_a = report.instances,
                  "device"_a = report.device, "replicas"_a = report.replicas,
                  "idle_ipus"_a = report.idle_ipus, "streaming_bytes"_a = report.streaming_bytes,
                  "streaming_capacity"_a = report.streaming_capacity, "bubbles"_a = report.bubbles,
                  "bottleneck_stage"_a = report.bottleneck_stage,
                  "cycles_per_run"_a = report.cycles_per_run,
                  "seconds_per_run"_a = report.seconds_per_run,
                  "generic_ops"_a = report.generic_ops, "reference_kernels"_a = reference_kernels,
                  "runs"_a = report.measured.runs, "run_seconds"_a = report.measured.in_runs,
                  "between_runs_seconds"_a = report.measured.between_runs);
}

py::dict schedule_dict(const session::Schedule& schedule) {
  py::list cells, transfers;
  for (size_t i = 0; i < schedule.work.size(); ++i) {
    const account::StageWork& work = schedule.work[i];
    cells.append(py::dict("ipu"_a = work.ipu, "stage"_a = work.stage, "phase"_a = work.phase,
                          "micro_batch"_a = work.micro_batch, "backward"_a = work.backward,
                          "cycles"_a = work.cycles, "step"_a = schedule.work_steps[i]));
  }
  for (size_t i = 0; i < schedule.transfers.size(); ++i) {
    const account::Transfer& transfer = schedule.transfers[i];
    transfers.append(
        py::dict("ipu"_a = transfer.ipu, "phase"_a = transfer.phase,
                 "micro_batch"_a = transfer.micro_batch, "kind"_a = session::word(transfer.kind),
                 "name"_a = transfer.name, "bytes"_a = transfer.bytes, "cycles"_a = transfer.cycles,
                 "io_tiles"_a = transfer.io_tiles, "step"_a = schedule.transfer_steps[i]));
  }
  return py::dict("ipus"_a = schedule.ipus, "idle_ipus"_a = schedule.idle_ipus,
                  "stages"_a = schedule.stages, "blocks"_a = schedule.blocks,
                  "phases"_a = schedule.phases, "steps"_a = schedule.steps, "cells"_a = cells,
                  "transfers"_a = transfers, "streams"_a = stream_list(schedule.streams),
                  "io_tiles"_a = schedule.io_tiles, "bubbles"_a = schedule.bubbles,
                  "bottleneck"_a = schedule.bottleneck);
}

py::dict profile_dict(const account::Profile& profile) {
  py::list segments;
  for (const account::Segment& segment : profile.segments) {
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
