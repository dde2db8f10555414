#include "account/cursor.hpp"

#include <utility>

#include "support/saturate.hpp"

namespace poptorch::account {

using program::Instruction;
using Kind = Instruction::Kind;

Cursor::Cursor(const std::vector<Instruction>& body, const Rounds& walked, Loops loops)
    : walked_(walked), loops_(loops) {
  stack_.push_back({.block = &body});
}

bool Cursor::next(int64_t now) {
  micro_batch_ += std::exchange(skipped_, 0);
  left_out_ = 0;
  while (!stack_.empty()) {
    Level& level = stack_.back();
    if (level.index == level.block->size()) {
      if (end_round(level, now)) return true;
      continue;
    }
    instruction_ = &(*level.block)[level.index++];
    in_whole_ = level.in_whole;
    const Instruction& instruction = *instruction_;
    if (instruction.blocks.empty()) return true;
    const bool whole = in_whole_ || !has_events(instruction);
    if (whole && loops_ == Loops::kWithEvents) return true;
    enter(instruction, whole, now);
    if (whole && !in_whole_) return true;
  }
  return false;
}

void Cursor::enter(const Instruction& instruction, bool whole, int64_t now) {
  const bool loop = instruction.kind == Kind::kLoop;
  // All IPUs take the first of branches with events.
  const size_t branch = loop || !whole ? 0 : longer_branch(instruction);
  const int64_t count = loop ? instruction.count : 1;
  const auto found = walked_.find(&instruction);
  const int64_t rounds = found == walked_.end() ? count : found->second;
  if (rounds <= 0) return;
  const auto& block = instruction.blocks[branch];
  const bool ends_cycle = !block.empty() && program::ends_cycle(block.back());
  stack_.push_back({.block = &block,
                    .loop = loop ? &instruction : nullptr,
                    .end_of_cycle = ends_cycle ? &block.back() : nullptr,
                    .rounds = rounds,
                    .left_out = count - rounds,
                    .in_whole = whole,
                    .began = now,
                    .micro_batch = micro_batch_});
}

// Returns whether the loop ends with left-out rounds that an observer needs.
bool Cursor::end_round(Level& level, int64_t now) {
  if (level.loop) micro_batch_ += level.loop->per_micro_batch - level.loop->rewind;
  if (--level.rounds > 0) {
    level.index = 0;
    level.began = now;
    level.micro_batch = micro_batch_;
    return false;
  }
  const Level ended = level;
  stack_.pop_back();
  if (ended.left_out == 0 || loops_ == Loops::kWithEvents) return false;
  instruction_ = ended.loop;
  left_out_ = ended.left_out;
  last_round_ = now - ended.began;
  skipped_ = support::saturating_product(left_out_, micro_batch_ - ended.micro_batch);
  return true;
}

}  // namespace poptorch::account
