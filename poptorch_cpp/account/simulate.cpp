#include "account/simulate.hpp"

#include <algorithm>
#include <set>

#include "account/walk.hpp"
#include "support/saturate.hpp"

namespace poptorch::account {

using program::Instruction;
using support::saturating_product;
using support::saturating_sum;
using Kind = Instruction::Kind;

int64_t cycles_of(const Instruction& instruction) {
  if (instruction.kind == Kind::kLoop) {
    const int64_t rounds = saturating_product(instruction.count, cycles_of(instruction.blocks[0]));
    return saturating_sum(instruction.cycles, rounds);
  }
  int64_t longest = 0;
  for (const auto& inner : instruction.blocks) longest = std::max(longest, cycles_of(inner));
  return saturating_sum(instruction.cycles, longest);
}

int64_t cycles_of(const std::vector<Instruction>& block) {
  int64_t total = 0;
  for (const Instruction& instruction : block) {
    total = saturating_sum(total, cycles_of(instruction));
  }
  return total;
}

bool on_io_tiles(const Instruction& instruction) {
  return instruction.attrs.find("io_tiles") != nullptr;
}

namespace {

// After its first rounds, every further round of a loop takes the same time. The time of loops with
// `counts` rounds is extrapolated from walks of `most` / 2 and `most` rounds.
int64_t extrapolate(const program::Program& program, Rounds walked, std::set<int64_t> counts,
                    int64_t most) {
  if (counts.empty()) return walk(program, walked);
  const int64_t count = *counts.begin();
  counts.erase(count);
  walked[count] = most / 2;
  const int64_t few = extrapolate(program, walked, counts, most);
  walked[count] = most;
  const int64_t many = extrapolate(program, walked, counts, most);
  const double a_round = static_cast<double>(many - few) / static_cast<double>(most - most / 2);
  const double rest = a_round * static_cast<double>(count - most);
  return rest < 0x1p62 ? saturating_sum(many, static_cast<int64_t>(rest)) : INT64_MAX;
}

constexpr int64_t kMostSteps = 1 << 19;  // of a walk
constexpr size_t kMostLongLoops = 3;

}  // namespace

int64_t simulate(const program::Program& program) {
  int64_t most = INT64_MAX;
  while (most >= 2 && steps_of(program, most, Loops::kWithEvents) > kMostSteps) most /= 2;
  const std::set<int64_t> counts = long_loops(program, most, Loops::kWithEvents);
  if (most >= 2 && counts.size() <= kMostLongLoops) return extrapolate(program, {}, counts, most);
  int64_t longest = 0;
  for (const auto& ipu : program.ipus) longest = std::max(longest, cycles_of(ipu.body));
  return longest;
}

}  // namespace poptorch::account
