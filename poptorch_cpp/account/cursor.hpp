// The position of one IPU in its list of instructions.
#pragma once

#include <cstdint>
#include <vector>

#include "account/rounds.hpp"
#include "program/program.hpp"

namespace poptorch::account {

// A stack of blocks, each with the remaining rounds of its loop.
class Cursor {
 public:
  Cursor(const std::vector<program::Instruction>& body, const Rounds& walked, Loops loops);

  // Advances to the next instruction at the time `now`; returns false at the end. Loops and
  // branches without events are visited before they are entered, or as a whole.
  bool next(int64_t now);

  const program::Instruction* instruction() const { return instruction_; }
  // Returns the sync that ends the cycle of a pipeline whose block the cursor is in, or nullptr.
  const program::Instruction* end_of_cycle() const {
    return stack_.empty() ? nullptr : stack_.back().end_of_cycle;
  }
  // Returns whether the cursor is in a loop or branch without events.
  bool in_whole() const { return in_whole_; }
  // Returns whether the blocks of the instruction are visited too.
  bool enters() const { return loops_ == Loops::kAll && !instruction_->blocks.empty(); }
  int64_t micro_batch() const { return micro_batch_; }
  // At the end of a loop, which then is the instruction: the number of rounds that are not walked,
  // each as long as the last one.
  int64_t left_out() const { return left_out_; }
  int64_t last_round() const { return last_round_; }

 private:
  struct Level {
    const std::vector<program::Instruction>* block;
    const program::Instruction* loop = nullptr;
    const program::Instruction* end_of_cycle = nullptr;
    size_t index = 0;
    int64_t rounds = 1, left_out = 0;  // still to walk, and left out
    bool in_whole = false;
    int64_t began = 0, micro_batch = 0;  // of the current round
  };

  void enter(const program::Instruction& instruction, bool whole, int64_t now);
  bool end_round(Level& level, int64_t now);

  const Rounds& walked_;
  Loops loops_;
  std::vector<Level> stack_;
  const program::Instruction* instruction_ = nullptr;
  bool in_whole_ = false;
  int64_t left_out_ = 0, last_round_ = 0;
  int64_t micro_batch_ = 0, skipped_ = 0;  // the counter, and what left-out rounds add to it
};

}  // namespace poptorch::account
