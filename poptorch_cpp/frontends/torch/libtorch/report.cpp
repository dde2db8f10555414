// Executor's report on a compiled model and its estimate, as poptorch/report.hpp and
// poptorch/estimate.hpp declare them.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "frontends/torch/libtorch/executor_state.hpp"
#include "poptorch/poptorch.hpp"
#include "session/schedule.hpp"

namespace poptorch {
namespace {

using Kind = std::pair<const char*, int64_t IpuWork::*>;

constexpr Kind kKinds[] = {
    {"compute", &IpuWork::compute_cycles},     {"link", &IpuWork::link_cycles},
    {"gateway", &IpuWork::gateway_cycles},     {"host", &IpuWork::host_cycles},
    {"streaming", &IpuWork::streaming_cycles}, {"idle", &IpuWork::idle_cycles},
};

bool lacks_memory(const Report& report) {
  return std::any_of(report.ipus.begin(), report.ipus.end(),
                     [](const IpuMemory& ipu) { return ipu.needed() > ipu.capacity_bytes; });
}

// Counts time in which an IPU waits for transfers of others as transfer.
IpuWork with_waits(IpuWork work) {
  work.host_cycles += work.host_wait_cycles;
  work.link_cycles += work.link_wait_cycles;
  work.idle_cycles -= work.host_wait_cycles + work.link_wait_cycles;
  return work;
}

std::string limit_of(const Report& report) {
  if (lacks_memory(report)) return "memory";
  if (report.streaming_bytes > report.streaming_capacity) return "streaming memory";
  std::pair<double, const char*> largest{-1, ""};
  for (const auto& [name, cycles] : kKinds) {
    double sum = 0;
    for (const IpuWork& ipu : report.work) sum += static_cast<double>(with_waits(ipu).*cycles);
    if (sum > largest.first) largest = {sum, name};
  }
  return largest.second;
}

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

std::string Executor::graph(const std::string& form) const {
  return state_->compiled().compiled().text(form);
}

Report Executor::report() const { return state_->compiled().compiled().report(); }

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

Estimate Executor::estimate(const Tensors& inputs, const Forward& forward) {
  compile::HostOptions host = state_->said.host;
  host.offline = host.round_ipu_count = true;
  host.memory_limit = account::MemoryLimit::kOff;
  Estimate made;
  watched([&] {
    const auto executable = state_->compiled_for(inputs, forward, host);
    made.report = executable->compiled().report();
  });
  const auto batched = std::find_if(inputs.begin(), inputs.end(),
                                    [](const at::Tensor& input) { return input.dim() > 0; });
  const int64_t rows = batched == inputs.end() ? 1 : batched->size(0);
  made.samples_per_run = rows * state_->said.execution.input_factor();
  const double seconds = made.report.seconds_per_run;
  made.samples_per_second = seconds > 0 ? static_cast<double>(made.samples_per_run) / seconds : 0;
  made.limiting_factor = limit_of(made.report);
  made.fits = !made.limiting_factor.ends_with("memory");
  return made;
}

std::string Estimate::str() const {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << report.replicas * report.ipus.size() << " IPUs ("
       << report.device << "), " << report.replicas << " replicas of " << report.ipus.size() << "\n"
       << samples_per_second << " samples/s, " << report.cycles_per_run << " cycles a run\n"
       << "Limited by " << limiting_factor << "\n";
  for (size_t i = 0; i < report.ipus.size(); ++i) {
    const IpuMemory& ipu = report.ipus[i];
    text << "IPU " << i << " needs " << megabytes(ipu.needed()) << " MB of "
         << megabytes(ipu.capacity_bytes) << " MB: state " << megabytes(ipu.state_bytes)
         << ", activations " << megabytes(ipu.arena_bytes) << ", stashes "
         << megabytes(ipu.stash_bytes) << ", code " << megabytes(ipu.code_bytes) << "\n";
  }
  return text.str();
}

}  // namespace poptorch
