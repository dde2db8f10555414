// Keeps a cursor into the list and a clock for each IPU.
#include "account/walk.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "account/simulate.hpp"
#include "support/saturate.hpp"
#include "support/table.hpp"

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

bool on_io_tiles_anywhere(const Instruction& instruction) {
  if (on_io_tiles(instruction)) return true;
  for (const Block& block : instruction.blocks) {
    if (std::any_of(block.begin(), block.end(), on_io_tiles_anywhere)) return true;
  }
  return false;
}

// The position of one IPU in its list: a stack of blocks, each with the remaining rounds of its
// loop.
class Cursor {
 public:
  Cursor(const Block& body, const Rounds& walked, Loops loops) : walked_(walked), loops_(loops) {
    stack_.push_back({.block = &body});
  }

  // Advances to the next instruction at the time `now`; returns false at the end. Loops and
  // branches without events are visited before they are entered, or as a whole.
  bool next(int64_t now) {
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

  const Instruction* instruction() const { return instruction_; }
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
    const Block* block;
    const Instruction* loop = nullptr;
    size_t index = 0;
    int64_t rounds = 1, left_out = 0;  // still to walk, and left out
    bool in_whole = false;
    int64_t began = 0, micro_batch = 0;  // of the current round
  };

  void enter(const Instruction& instruction, bool whole, int64_t now) {
    const bool loop = instruction.kind == Kind::kLoop;
    // All IPUs take the first of branches with events.
    const size_t branch = loop || !whole ? 0 : longer_branch(instruction);
    const int64_t count = loop ? instruction.count : 1;
    const auto found = loop ? walked_.find(count) : walked_.end();
    const int64_t rounds = found == walked_.end() ? count : found->second;
    if (rounds <= 0) return;
    stack_.push_back({.block = &instruction.blocks[branch],
                      .loop = loop ? &instruction : nullptr,
                      .rounds = rounds,
                      .left_out = count - rounds,
                      .in_whole = whole,
                      .began = now,
                      .micro_batch = micro_batch_});
  }

  // Returns whether the loop ends with left-out rounds that an observer needs.
  bool end_round(Level& level, int64_t now) {
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
    skipped_ = saturating_product(left_out_, micro_batch_ - ended.micro_batch);
    return true;
  }

  const Rounds& walked_;
  Loops loops_;
  std::vector<Level> stack_;
  const Instruction* instruction_ = nullptr;
  bool in_whole_ = false;
  int64_t left_out_ = 0, last_round_ = 0;
  int64_t micro_batch_ = 0, skipped_ = 0;  // the counter, and what left-out rounds add to it
};

// One IPU: its compute tiles work in the order of the list, its IO tiles concurrently.
class Machine {
 public:
  Machine(int ipu, const Block& body, const Rounds& walked, const Observer& observer)
      : ipu_(ipu),
        observer_(observer),
        cursor_(body, walked, observer ? Loops::kAll : Loops::kWithEvents) {}

  const Instruction* waiting = nullptr;  // for others
  int64_t clock = 0;
  bool done = false;

  // Runs up to the next exchange with other IPUs.
  void advance() {
    while (cursor_.next(clock)) {
      waiting = cursor_.instruction();
      if (waiting->kind == Kind::kSend || waiting->kind == Kind::kReceive ||
          waiting->kind == Kind::kSync) {
        return;
      }
      step(*waiting);
    }
    waiting = nullptr;
    done = true;
    clock = std::max(clock, io_clock_);
  }

  // Executes on the compute tiles.
  void work(const Instruction& instruction, int64_t cycles) {
    tell(instruction, false, clock, cycles);
    clock = saturating_sum(clock, cycles);
  }

  void wait_for_operands(const Instruction& instruction) {
    if (arriving_.empty()) return;
    for (program::TensorId id : instruction.inputs) {
      const auto found = arriving_.find(id);
      if (found == arriving_.end()) continue;
      clock = std::max(clock, found->second);
      arriving_.erase(found);
    }
  }

 private:
  void step(const Instruction& instruction) {
    if (cursor_.left_out() > 0) {
      skip(instruction);
      return;
    }
    if (cursor_.in_whole()) {
      work(instruction, instruction.cycles);
      return;
    }
    wait_for_operands(instruction);
    if (on_io_tiles(instruction)) {
      transfer(instruction);
      return;
    }
    if (instruction.pass == program::Pass::kUpdate) {
      for (int stream : of_accumulation_) taken_.erase(stream);
    }
    work(instruction, cursor_.enters() ? 0 : cycles_of(instruction));
  }

  // Accounts for the rounds of a loop that are not walked.
  void skip(const Instruction& loop) {
    const int64_t cycles = saturating_product(cursor_.left_out(), cursor_.last_round());
    tell(loop, false, clock, cycles, cursor_.left_out());
    if (on_io_tiles_anywhere(loop)) {
      tell(loop, true, clock, cycles, cursor_.left_out());
      io_clock_ = saturating_sum(io_clock_, cycles);
      for (auto& [stream, when] : taken_) when = saturating_sum(when, cycles);
    }
    clock = saturating_sum(clock, cycles);
  }

  void tell(const Instruction& instruction, bool io_tiles, int64_t start, int64_t cycles,
            int64_t rounds = 1) {
    if (!observer_ || cycles == 0) return;
    observer_({.instruction = &instruction,
               .ipu = ipu_,
               .io_tiles = io_tiles,
               .start = start,
               .cycles = cycles,
               .micro_batch = cursor_.micro_batch() + instruction.micro_batch_offset,
               .rounds = rounds});
  }

  void transfer(const Instruction& instruction) {
    const bool host = instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut;
    int64_t ready = clock;
    if (instruction.kind == Kind::kStreamIn) {
      // The transfer runs ahead: it is ready as soon as the previous one has been taken over.
      const auto taken = taken_.find(instruction.channel);
      if (taken != taken_.end()) ready = taken->second;
      const ir::Attr* loop = instruction.attrs.find("overlap");
      if (loop && std::get<std::string>(*loop) == "accumulation_loop") {
        of_accumulation_.insert(instruction.channel);
      }
    }
    ready = std::max(io_clock_, ready);
    tell(instruction, true, ready, instruction.cycles);
    io_clock_ = saturating_sum(ready, instruction.cycles);
    if (instruction.kind == Kind::kStreamIn) {
      taken_[instruction.channel] = clock = std::max(clock, io_clock_);
    } else if (!host) {
      for (program::TensorId id : instruction.outputs) arriving_[id] = io_clock_;
    }
  }

  int ipu_;
  const Observer& observer_;
  Cursor cursor_;
  int64_t io_clock_ = 0;                           // when the IO tiles are free
  std::map<program::TensorId, int64_t> arriving_;  // from Streaming Memory: when each arrives
  // The time when a stream's last transfer was taken over, in the loop that it overlaps with.
  std::map<int, int64_t> taken_;
  std::set<int> of_accumulation_;  // streams that overlap with the accumulation loop
};

}  // namespace

int64_t walk(const Program& program, const Rounds& walked, const Observer& observer) {
  support::Table<int, Machine> ipus;
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    ipus.emplace_back(static_cast<int>(i), program.ipus[i].body, walked, observer);
  }
  std::map<int, std::deque<int64_t>> sent;  // by channel: when each message arrives
  for (bool moved = true; moved;) {
    moved = false;
    for (Machine& ipu : ipus) {
      while (!ipu.done) {
        if (!ipu.waiting) {
          ipu.advance();
          moved = true;
          if (ipu.done) break;
        }
        const Instruction& instruction = *ipu.waiting;
        if (instruction.kind == Kind::kSync) break;
        if (instruction.kind == Kind::kSend) {
          ipu.wait_for_operands(instruction);
          ipu.work(instruction, instruction.cycles);
          sent[instruction.channel].push_back(ipu.clock);
        } else {
          auto& queue = sent[instruction.channel];
          if (queue.empty()) break;
          ipu.clock = std::max(ipu.clock, queue.front());
          queue.pop_front();
        }
        ipu.waiting = nullptr;
        moved = true;
      }
    }
    const bool all_sync = std::all_of(ipus.begin(), ipus.end(), [](const Machine& ipu) {
      return ipu.done || (ipu.waiting && ipu.waiting->kind == Kind::kSync);
    });
    int64_t latest = 0;
    for (const Machine& ipu : ipus) latest = std::max(latest, ipu.clock);
    for (Machine& ipu : ipus) {
      if (!all_sync || ipu.done) continue;
      ipu.clock = latest;
      ipu.work(*ipu.waiting, ipu.waiting->cycles);
      ipu.waiting = nullptr;
      moved = true;
    }
  }
  int64_t latest = 0;
  for (const Machine& ipu : ipus) latest = std::max(latest, ipu.clock);
  return latest;
}

namespace {

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

void note_long_loops(const Block& block, int64_t most, Loops loops, std::set<int64_t>& found) {
  for (const Instruction& instruction : block) {
    if (!is_entered(instruction, loops)) continue;
    if (instruction.kind == Kind::kLoop && instruction.count > most) {
      found.insert(instruction.count);
    }
    for (const Block& inner : instruction.blocks) note_long_loops(inner, most, loops, found);
  }
}

}  // namespace

int64_t steps_of(const Program& program, int64_t most, Loops loops) {
  int64_t all = 0;
  for (const auto& ipu : program.ipus) all = saturating_sum(all, steps_in(ipu.body, most, loops));
  return all;
}

std::set<int64_t> long_loops(const Program& program, int64_t most, Loops loops) {
  std::set<int64_t> found;
  for (const auto& ipu : program.ipus) note_long_loops(ipu.body, most, loops, found);
  return found;
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
