#include "account/rounds.hpp"

#include <algorithm>

#include "account/simulate.hpp"
#include "support/saturate.hpp"

namespace poptorch::account {
namespace {

using program::Instruction;
using program::Program;
using support::saturating_product;
using support::saturating_sum;
using Kind = Instruction::Kind;
using Block = std::vector<Instruction>;

// Returns whether a block waits for other IPUs or lets them wait: such loops are walked round by
// round.
bool any_events(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Instruction& instruction) {
    return instruction.kind == Kind::kSend || instruction.kind == Kind::kReceive ||
           instruction.kind == Kind::kSync || on_io_tiles(instruction) || has_events(instruction);
  });
}

bool is_entered(const Instruction& instruction, Loops loops) {
  if (instruction.blocks.empty()) return false;
  return loops == Loops::kAll || has_events(instruction);
}

int64_t steps_in(const Block& block, int64_t most, Loops loops) {
  int64_t steps = 0;
  for (const Instruction& instruction : block) {
    int64_t inner = 0;
    if (is_entered(instruction, loops)) {
      for (const Block& nested : instruction.blocks) {
        inner = std::max(inner, steps_in(nested, most, loops));
      }
      if (instruction.kind == Kind::kLoop) {
        inner = saturating_product(std::min(instruction.count, most), inner);
      }
    }
    steps = saturating_sum(steps, saturating_sum(1, inner));
  }
  return steps;
}

class LongLoops {
 public:
  LongLoops(int64_t most, Loops loops) : most_(most), loops_(loops) {}

  void note(const Block& block) {
    int64_t longest = 0;  // of the loops with events
    for (const Instruction& instruction : block) {
      if (instruction.kind != Kind::kLoop || !has_events(instruction)) continue;
      longest = std::max(longest, instruction.count);
    }
    for (const Instruction& instruction : block) {
      if (!is_entered(instruction, loops_)) continue;
      const bool short_ramp = has_events(instruction) && instruction.count < longest / 2;
      if (instruction.kind == Kind::kLoop && instruction.count > most_ && !short_ramp) {
        found_.push_back(&instruction);
      }
      for (const Block& inner : instruction.blocks) note(inner);
    }
  }

  std::vector<const Instruction*> take() {
    std::stable_sort(found_.begin(), found_.end(), [](const Instruction* a, const Instruction* b) {
      return a->count < b->count;
    });
    return std::move(found_);
  }

 private:
  int64_t most_;
  Loops loops_;
  std::vector<const Instruction*> found_;
};

}  // namespace

int64_t steps_of(const Program& program, int64_t most, Loops loops) {
  int64_t all = 0;
  for (const auto& ipu : program.ipus) all = saturating_sum(all, steps_in(ipu.body, most, loops));
  return all;
}

std::vector<const Instruction*> long_loops(const Program& program, int64_t most, Loops loops) {
  LongLoops found(most, loops);
  for (const auto& ipu : program.ipus) found.note(ipu.body);
  return found.take();
}

bool has_events(const Instruction& instruction) {
  const auto& blocks = instruction.blocks;
  return std::any_of(blocks.begin(), blocks.end(), any_events);
}

size_t longer_branch(const Instruction& conditional) {
  const auto& blocks = conditional.blocks;
  return cycles_of(blocks[0]) >= cycles_of(blocks[1]) ? 0 : 1;
}

}  // namespace poptorch::account
