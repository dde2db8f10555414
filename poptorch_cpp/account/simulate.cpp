#include "account/simulate.hpp"

#include <algorithm>
#include <set>
#include <vector>

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

// Round counts that differ by little belong to one loop of a pipeline, whose stages begin and end
// it at different times. They are ascending.
using Counts = std::vector<int64_t>;

constexpr int64_t kMostApart = 64;  // rounds

std::vector<Counts> related(const std::set<int64_t>& counts) {
  std::vector<Counts> groups;
  for (int64_t count : counts) {
    if (groups.empty() || count - groups.back().back() > kMostApart) groups.emplace_back();
    groups.back().push_back(count);
  }
  return groups;
}

// After its first rounds, every further round of a loop takes the same time. The time of loops with
// related counts is extrapolated from walks of `most` / 2 and `most` rounds of the shortest; the
// others keep their distance to it.
int64_t extrapolate(const program::Program& program, Rounds walked, std::vector<Counts> groups,
                    int64_t most) {
  if (groups.empty()) return walk(program, walked);
  const Counts counts = groups.back();
  groups.pop_back();
  for (int64_t count : counts) walked[count] = most / 2 + count - counts.front();
  const int64_t few = extrapolate(program, walked, groups, most);
  for (int64_t count : counts) walked[count] = most + count - counts.front();
  const int64_t many = extrapolate(program, walked, groups, most);
  const double a_round = static_cast<double>(many - few) / static_cast<double>(most - most / 2);
  const double rest = a_round * static_cast<double>(counts.front() - most);
  return rest < 0x1p62 ? saturating_sum(many, static_cast<int64_t>(rest)) : INT64_MAX;
}

constexpr int64_t kMostSteps = 1 << 19;  // of a walk
constexpr size_t kMostLongLoops = 3;

}  // namespace

int64_t simulate(const program::Program& program) {
  int64_t most = INT64_MAX;
  while (most >= 2 && steps_of(program, most, Loops::kWithEvents) > kMostSteps) most /= 2;
  // Loops that are related to a longer one are shortened with it.
  const int64_t above = most < INT64_MAX ? std::max<int64_t>(most - kMostApart, 1) : most;
  const auto groups = related(long_loops(program, above, Loops::kWithEvents));
  if (most >= 2 && groups.size() <= kMostLongLoops) return extrapolate(program, {}, groups, most);
  int64_t longest = 0;
  for (const auto& ipu : program.ipus) longest = std::max(longest, cycles_of(ipu.body));
  return longest;
}

}  // namespace poptorch::account
