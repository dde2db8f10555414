// Assigns work and transfers to steps.
#include "session/schedule.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/execution.hpp"
#include "lowering/strategy.hpp"

namespace poptorch::session {
namespace {

using Key = std::pair<int64_t, int64_t>;  // micro-batch, place in it

bool is_with_host(const account::Transfer& transfer) {
  return transfer.kind == account::Transfer::Kind::kIn ||
         transfer.kind == account::Transfer::Kind::kOut;
}

int64_t pipelined_step(const account::StageWork& work, int64_t a_round, int64_t stages) {
  const int64_t round = work.micro_batch / a_round, within = work.micro_batch % a_round;
  return round * (a_round + stages - 1) + within + work.stage;
}

Key key_of(const account::StageWork& work, bool phased, int64_t stages) {
  if (phased) return {work.micro_batch, work.phase};
  return {work.micro_batch, work.backward ? 2 * (stages - 1) - work.stage : work.stage};
}

// Returns the step of an overlapping transfer with the host: a step of the micro-batch after an
// output or before an input. If that is not in the same loop or has no work, its own micro-batch's.
int64_t step_beside(const Schedule& made, const account::Transfer& move, const std::string& overlap,
                    int64_t a_round) {
  const bool out = move.kind == account::Transfer::Kind::kOut;
  const int64_t mine = move.micro_batch, other = out ? mine + 1 : mine - 1;
  // Micro-batches before the first are in round -1, not in round 0.
  const auto round_of = [&](int64_t m) { return m < 0 ? -1 : m / a_round; };
  const bool same_loop = overlap == "device_iteration_loop" || round_of(mine) == round_of(other);
  for (const int64_t micro_batch : {other, mine}) {
    if (micro_batch == other && !same_loop) continue;
    int64_t least = -1, most = -1;
    for (size_t i = 0; i < made.work.size(); ++i) {
      if (made.work[i].ipu != move.ipu || made.work[i].micro_batch != micro_batch) continue;
      const int64_t step = made.work_steps[i];
      least = least < 0 ? step : std::min(least, step);
      most = std::max(most, step);
    }
    if (least >= 0) return out && micro_batch == mine ? most : least;
  }
  return 0;
}

int slowest_stage(const std::vector<account::StageWork>& work) {
  std::map<std::pair<int, int64_t>, int64_t> cycles;  // by stage and micro-batch
  std::vector<std::pair<int, int64_t>> order;
  for (const account::StageWork& one : work) {
    const std::pair key(one.stage, one.micro_batch);
    if (!cycles.contains(key)) order.push_back(key);
    cycles[key] += one.cycles;
  }
  int found = 0;
  int64_t most = -1;
  for (const auto& key : order) {
    if (cycles[key] > most) {
      most = cycles[key];
      found = key.first;
    }
  }
  return found;
}

// Numbers the steps of a schedule that is not a pipeline. Returns the step of each place.
std::map<Key, int64_t> steps_in_order(Schedule& made, bool phased) {
  std::map<Key, int64_t> order;
  for (const account::StageWork& work : made.work) order[key_of(work, phased, made.stages)] = 0;
  for (const account::Transfer& move : made.transfers) {
    if (!is_with_host(move)) order[{move.micro_batch, move.phase}] = 0;
  }
  int64_t step = 0;
  for (auto& [key, its_step] : order) {
    its_step = step++;
    if (phased) made.phases.push_back(static_cast<int>(key.second));
  }
  return order;
}

// Assigns the work and the transfers to steps.
void number_steps(Schedule& made, const ir::Execution& said) {
  const lowering::Steps kind = lowering::find_strategy(said.strategy).steps;
  const int64_t a_round = said.training ? said.gradient_accumulation : said.device_iterations;
  const bool pipelined = kind == lowering::Steps::kPipeline;
  const bool phased = kind == lowering::Steps::kPhases;
  std::map<Key, int64_t> order;
  if (!pipelined) order = steps_in_order(made, phased);
  for (const account::StageWork& work : made.work) {
    made.work_steps.push_back(pipelined ? pipelined_step(work, a_round, made.stages)
                                        : order[key_of(work, phased, made.stages)]);
  }
  std::map<std::string, std::string> overlaps;
  for (const account::StreamReport& stream : made.streams) overlaps[stream.name] = stream.overlap;
  for (const account::Transfer& move : made.transfers) {
    made.transfer_steps.push_back(is_with_host(move)
                                      ? step_beside(made, move, overlaps[move.name], a_round)
                                      : order[{move.micro_batch, move.phase}]);
  }
  made.steps = 1;
  for (const auto* steps : {&made.work_steps, &made.transfer_steps}) {
    for (const int64_t step : *steps) made.steps = std::max(made.steps, step + 1);
  }
}

double share_of_bubbles(const Schedule& made) {
  std::set<std::pair<int, int64_t>> busy;
  for (size_t i = 0; i < made.work.size(); ++i) {
    busy.emplace(made.work[i].ipu, made.work_steps[i]);
  }
  return 1 - static_cast<double>(busy.size()) / static_cast<double>(made.ipus * made.steps);
}

std::vector<std::vector<std::string>> blocks_of(const Report& report) {
  std::vector<std::vector<std::string>> blocks(report.ipus.size());
  for (const account::StageReport& stage : report.stages) {
    auto& names = blocks[stage.ipu];
    for (const std::string& block : stage.blocks) {
      if (std::find(names.begin(), names.end(), block) == names.end()) names.push_back(block);
    }
  }
  return blocks;
}

}  // namespace

std::string_view word(account::Transfer::Kind kind) {
  constexpr std::string_view kWords[] = {"in", "out", "load", "store"};
  return kWords[static_cast<size_t>(kind)];
}

Schedule make_schedule(const Executable& model, int64_t micro_batches) {
  const ir::Execution& said = model.execution();
  Timeline timeline = model.timeline(micro_batches);
  const Report report = model.report();
  Schedule made;
  made.ipus = static_cast<int64_t>(report.ipus.size());
  made.idle_ipus = report.idle_ipus;
  made.io_tiles = said.io_tiles;
  made.streams = report.streams;
  made.work = std::move(timeline.work);
  made.transfers = std::move(timeline.transfers);
  made.stages = 1;
  for (const account::StageWork& work : made.work) {
    made.stages = std::max<int64_t>(made.stages, work.stage + 1);
  }
  number_steps(made, said);
  made.bubbles = share_of_bubbles(made);
  made.bottleneck = slowest_stage(made.work);
  made.blocks = blocks_of(report);
  return made;
}

}  // namespace poptorch::session
