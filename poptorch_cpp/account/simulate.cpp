#include "account/simulate.hpp"

#include <algorithm>
#include <vector>

#include "account/condense.hpp"
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

bool uses_io_tiles(const std::vector<Instruction>& block) {
  return std::any_of(block.begin(), block.end(), [](const Instruction& instruction) {
    const auto& inner = instruction.blocks;
    return on_io_tiles(instruction) || std::any_of(inner.begin(), inner.end(), uses_io_tiles);
  });
}

namespace {

// Loops whose round counts differ by little are one loop of a pipeline, whose stages begin and end
// it at different times. The shortest is the first.
using Related = std::vector<const Instruction*>;

constexpr int64_t kMostApart = 64;  // rounds

std::vector<Related> related(const std::vector<const Instruction*>& loops) {
  std::vector<Related> groups;
  for (const Instruction* loop : loops) {
    if (groups.empty() || loop->count - groups.back().back()->count > kMostApart) {
      groups.emplace_back();
    }
    groups.back().push_back(loop);
  }
  return groups;
}

// After its first rounds, every further round of a loop takes the same time. The time of related
// loops is extrapolated from walks of `most` / 2 and `most` rounds of the shortest; the others keep
// their distance to it.
Times extrapolate(const program::Program& program, Rounds walked, std::vector<Related> groups,
                  int64_t most) {
  if (groups.empty()) return walk(program, walked);
  const Related loops = groups.back();
  const int64_t shortest = loops.front()->count;
  groups.pop_back();
  for (const Instruction* loop : loops) walked[loop] = most / 2 + loop->count - shortest;
  const Times few = extrapolate(program, walked, groups, most);
  for (const Instruction* loop : loops) walked[loop] = most + loop->count - shortest;
  const Times many = extrapolate(program, walked, groups, most);
  const auto continued = [&](int64_t before, int64_t after) {
    const double a_round =
        static_cast<double>(after - before) / static_cast<double>(most - most / 2);
    const double rest = a_round * static_cast<double>(shortest - most);
    return rest < 0x1p62 ? saturating_sum(after, static_cast<int64_t>(rest)) : INT64_MAX;
  };
  Times made{.cycles = continued(few.cycles, many.cycles)};
  for (size_t ipu = 0; ipu < few.waits.size(); ++ipu) {
    const Waits &before = few.waits[ipu], &after = many.waits[ipu];
    made.waits.push_back(
        {continued(before.host, after.host), continued(before.links, after.links)});
  }
  return made;
}

constexpr int64_t kMostSteps = 1 << 19;  // of a walk
constexpr size_t kMostLongLoops = 3;

}  // namespace

Times simulate(const program::Program& whole) {
  const bool io_tiles = std::any_of(whole.ipus.begin(), whole.ipus.end(),
                                    [](const auto& ipu) { return uses_io_tiles(ipu.body); });
  const program::Program shorter = io_tiles ? program::Program() : condensed(whole);
  const program::Program& program = io_tiles ? whole : shorter;
  int64_t most = INT64_MAX;
  while (most >= 2 && steps_of(program, most, Loops::kWithEvents) > kMostSteps) most /= 2;
  // Loops that are related to a longer one are shortened with it.
  const int64_t above = most < INT64_MAX ? std::max<int64_t>(most - kMostApart, 1) : most;
  auto groups = related(long_loops(program, above, Loops::kWithEvents));
  groups.erase(groups.begin(),
               std::find_if(groups.begin(), groups.end(),
                            [&](const Related& loops) { return loops.back()->count > most; }));
  if (most >= 2 && groups.size() <= kMostLongLoops) return extrapolate(program, {}, groups, most);
  Times made{.waits = std::vector<Waits>(whole.ipus.size())};
  for (const auto& ipu : whole.ipus) made.cycles = std::max(made.cycles, cycles_of(ipu.body));
  return made;
}

}  // namespace poptorch::account
