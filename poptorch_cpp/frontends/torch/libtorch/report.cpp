// Executor's report on a compiled model, as poptorch/report.hpp declares it.
#include <iostream>

#include "frontends/torch/libtorch/executor_state.hpp"
#include "poptorch/poptorch.hpp"
#include "session/schedule.hpp"

namespace poptorch {
namespace {

IpuMemory memory_of(const account::MemoryReport& m) {
  return {.state_bytes = m.state_bytes,
          .arena_bytes = m.arena_bytes,
          .code_bytes = m.code_bytes,
          .capacity_bytes = m.capacity_bytes,
          .stash_bytes = m.stash_bytes,
          .weight_bytes = m.weight_bytes,
          .optimiser_bytes = m.optimiser_bytes,
          .accumulator_bytes = m.accumulator_bytes,
          .constant_bytes = m.constant_bytes};
}

IpuWork work_of(const account::WorkReport& w) {
  return {.compute_cycles = w.compute_cycles,
          .link_cycles = w.link_cycles,
          .host_cycles = w.host_cycles,
          .streaming_cycles = w.streaming_cycles,
          .gateway_cycles = w.gateway_cycles,
          .idle_cycles = w.idle_cycles,
          .link_bytes = w.link_bytes,
          .gateway_bytes = w.gateway_bytes,
          .host_bytes = w.host_bytes,
          .streaming_bytes = w.streaming_bytes,
          .overlapped_cycles = w.overlapped_cycles};
}

}  // namespace

std::string Executor::graph(const std::string& form) const {
  return state_->compiled().compiled().text(form);
}

Report Executor::report() const {
  const account::Report report = state_->compiled().compiled().report();
  Report result;
  result.cycles_per_run = report.cycles_per_run;
  result.seconds_per_run = report.seconds_per_run;
  result.generic_ops = report.generic_ops;
  result.device = report.device;
  result.replicas = report.replicas;
  result.idle_ipus = report.idle_ipus;
  result.streaming_bytes = report.streaming_bytes;
  result.streaming_capacity = report.streaming_capacity;
  result.bubbles = report.bubbles;
  result.bottleneck_stage = report.bottleneck_stage;
  result.reference_kernels = report.reference_kernels;
  for (const auto& memory : report.ipus) result.ipus.push_back(memory_of(memory));
  for (const auto& work : report.work) result.work.push_back(work_of(work));
  for (const auto& s : report.stages) result.stages.push_back({s.stage, s.ipu, s.cycles, s.blocks});
  for (const auto& o : report.ops) {
    result.ops.push_back({o.ipu, o.stage, o.block, o.module, o.op, o.count, o.cycles});
  }
  for (const auto& c : report.collectives) {
    result.collectives.push_back(
        {c.ipu, c.module, c.op, c.part, c.links, c.members, c.count, c.bytes, c.cycles});
  }
  return result;
}

session::Schedule Executor::State::scheduled(int64_t micro_batches) const {
  return session::make_schedule(compiled().compiled(), micro_batches);
}

Schedule Executor::schedule(int64_t micro_batches) const {
  const session::Schedule found = state_->scheduled(micro_batches);
  Schedule made;
  made.ipus = found.ipus;
  made.idle_ipus = found.idle_ipus;
  made.stages = found.stages;
  made.steps = found.steps;
  made.blocks = found.blocks;
  made.phases = found.phases;
  made.bubbles = found.bubbles;
  made.bottleneck = found.bottleneck;
  for (size_t i = 0; i < found.work.size(); ++i) {
    const account::StageWork& w = found.work[i];
    made.cells.push_back(
        {w.ipu, w.stage, w.phase, w.micro_batch, w.backward, w.cycles, found.work_steps[i]});
  }
  for (size_t i = 0; i < found.transfers.size(); ++i) {
    const account::Transfer& t = found.transfers[i];
    made.transfers.push_back({t.ipu, t.phase, t.micro_batch, std::string(session::word(t.kind)),
                              t.name, t.bytes, t.cycles, t.io_tiles, found.transfer_steps[i]});
  }
  return made;
}

void Executor::printSchedule(int64_t micro_batches) const {
  std::cout << session::draw(state_->scheduled(micro_batches)) << std::endl;
}

}  // namespace poptorch
