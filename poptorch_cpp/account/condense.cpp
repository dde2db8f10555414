#include "account/condense.hpp"

#include <utility>

#include "account/rounds.hpp"
#include "account/simulate.hpp"
#include "support/saturate.hpp"

namespace poptorch::account {
namespace {

using program::Instruction;
using Kind = Instruction::Kind;

bool is_event(const Instruction& instruction) {
  return instruction.kind == Kind::kSend || instruction.kind == Kind::kReceive ||
         instruction.kind == Kind::kSync || instruction.kind == Kind::kStreamIn ||
         instruction.kind == Kind::kStreamOut;
}

std::vector<Instruction> condensed(const std::vector<Instruction>& block) {
  std::vector<Instruction> made;
  bool working = false;
  for (const Instruction& instruction : block) {
    if (is_event(instruction) || has_events(instruction)) {
      Instruction kept{.kind = instruction.kind, .attrs = instruction.attrs};
      kept.channel = instruction.channel;
      kept.count = instruction.count;
      kept.cycles = instruction.cycles;
      for (const auto& inner : instruction.blocks) kept.blocks.push_back(condensed(inner));
      made.push_back(std::move(kept));
      working = false;
      continue;
    }
    if (!working) made.emplace_back();
    working = true;
    made.back().cycles = support::saturating_sum(made.back().cycles, cycles_of(instruction));
  }
  return made;
}

}  // namespace

program::Program condensed(const program::Program& program) {
  program::Program made;
  for (const auto& ipu : program.ipus) made.ipus.push_back({.body = condensed(ipu.body)});
  return made;
}

}  // namespace poptorch::account
