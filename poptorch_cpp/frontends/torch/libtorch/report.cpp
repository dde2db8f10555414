// Executor's report on a compiled model, as poptorch/report.hpp declares it.
#include <iostream>

#include "frontends/torch/libtorch/executor_state.hpp"
#include "poptorch/poptorch.hpp"
#include "session/schedule.hpp"

namespace poptorch {
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

}  // namespace poptorch
