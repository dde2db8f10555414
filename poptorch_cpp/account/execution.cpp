// Records a run's events by an observer of the walk, which also returns the run's cycles.
#include "account/execution.hpp"

#include <algorithm>
#include <limits>

#include "account/simulate.hpp"
#include "account/walk.hpp"

namespace poptorch::account {
namespace {

using program::Instruction;
using program::Program;

// Returns each IPU's lanes: compute tiles and IO tiles (-1 if it has none).
std::vector<std::pair<int64_t, int64_t>> add_lanes(const Program& program, Table& lanes) {
  std::vector<std::pair<int64_t, int64_t>> of_ipu;
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    const auto ipu = static_cast<int64_t>(i);
    const int64_t compute = lanes.add({ipu, 0});
    of_ipu.emplace_back(compute, uses_io_tiles(program.ipus[i].body) ? lanes.add({ipu, 1}) : -1);
  }
  return of_ipu;
}

struct Row {
  int64_t lane;
  Event event;
};

// Returns whether the walk takes another branch than the cost report. The walk takes the first of
// branches with events, and the longer of others.
bool walks_other_branch(const std::vector<Instruction>& block) {
  return std::any_of(block.begin(), block.end(), [](const Instruction& instruction) {
    const auto& inner = instruction.blocks;
    if (instruction.kind == Instruction::Kind::kIf && has_events(instruction) &&
        longer_branch(instruction) != 0) {
      return true;
    }
    return std::any_of(inner.begin(), inner.end(), walks_other_branch);
  });
}

}  // namespace

void add_execution(const Program& program, const Instructions& instructions, Inspection& made,
                   int64_t most) {
  int64_t rounds = std::numeric_limits<int64_t>::max();
  while (rounds > 1 && steps_of(program, rounds, Loops::kAll) > most) rounds /= 2;
  Rounds walked;
  for (const Instruction* loop : long_loops(program, rounds, Loops::kAll)) walked[loop] = rounds;

  const auto lanes = add_lanes(program, made.lanes);
  std::vector<Row> rows;
  const Times times = walk(program, walked, [&](const Event& event) {
    const auto& [compute, io] = lanes[event.ipu];
    rows.push_back({event.io_tiles ? io : compute, event});
  });
  made.total_cycles = simulate(program).cycles;
  made.shown_cycles = walked.empty() ? made.total_cycles : times.cycles;
  made.complete = walked.empty();
  if (static_cast<int64_t>(rows.size()) > most) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.event.start < b.event.start; });
    made.complete = false;
    made.shown_cycles = rows[most].event.start;
    rows.erase(rows.begin() + most, rows.end());
  }
  for (const auto& ipu : program.ipus) {
    if (walks_other_branch(ipu.body)) made.complete = false;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.lane < b.lane; });
  for (const auto& [lane, event] : rows) {
    if (event.instruction->kind == Instruction::Kind::kLoop) {
      made.shown_cycles = std::min(made.shown_cycles, event.start);
    }
    const bool update = event.instruction->pass == program::Pass::kUpdate;
    made.events.add({lane, event.start, event.cycles, instructions.row_of(event.instruction),
                     update ? -1 : event.micro_batch, event.rounds});
  }
}

}  // namespace poptorch::account
