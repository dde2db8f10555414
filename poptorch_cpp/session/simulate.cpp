// Implements simulate.hpp.
#include "session/simulate.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "support/saturate.hpp"

namespace poptorch::session {

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

// Waits for others, or is waited for: such loops are walked round by round.
bool has_events(const std::vector<Instruction>& block) {
  return std::any_of(block.begin(), block.end(), [](const Instruction& instruction) {
    return instruction.kind == Kind::kSend || instruction.kind == Kind::kReceive ||
           instruction.kind == Kind::kSync || on_io_tiles(instruction) ||
           std::any_of(instruction.blocks.begin(), instruction.blocks.end(), has_events);
  });
}

// Of loops with so many rounds (first), how many are walked (second); of others, all.
using Rounds = std::map<int64_t, int64_t>;

// One IPU's place in its list: a stack of blocks, each with what is left of its loop.
class Cursor {
 public:
  Cursor(const std::vector<Instruction>& body, const Rounds& walked) : walked_(walked) {
    stack_.push_back({&body, 0, 1});
  }

  // The next instruction; loops and branches without events whole. nullptr at the end.
  const Instruction* next() {
    while (!stack_.empty()) {
      Level& level = stack_.back();
      if (level.index == level.block->size()) {
        level.index = 0;
        if (--level.rounds <= 0) stack_.pop_back();
        continue;
      }
      const Instruction& instruction = (*level.block)[level.index++];
      if (std::none_of(instruction.blocks.begin(), instruction.blocks.end(), has_events)) {
        return &instruction;
      }
      // Of branches, all IPUs take the first.
      const int64_t rounds = instruction.kind == Kind::kLoop ? rounds_of(instruction.count) : 1;
      if (rounds > 0) stack_.push_back({&instruction.blocks[0], 0, rounds});
    }
    return nullptr;
  }

 private:
  struct Level {
    const std::vector<Instruction>* block;
    size_t index;
    int64_t rounds;
  };

  int64_t rounds_of(int64_t count) const {
    const auto found = walked_.find(count);
    return found == walked_.end() ? count : found->second;
  }

  const Rounds& walked_;
  std::vector<Level> stack_;
};

// One IPU: its compute tiles work in the order of the list, its IO tiles beside them.
class Machine {
 public:
  Machine(const std::vector<Instruction>& body, const Rounds& walked) : cursor_(body, walked) {}

  const Instruction* waiting = nullptr;  // for others
  int64_t clock = 0;
  bool done = false;

  // Up to the next exchange with other IPUs.
  void advance() {
    while ((waiting = cursor_.next())) {
      if (waiting->kind == Kind::kSend || waiting->kind == Kind::kReceive ||
          waiting->kind == Kind::kSync) {
        return;
      }
      step(*waiting);
    }
    done = true;
    clock = std::max(clock, io_clock_);
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
    wait_for_operands(instruction);
    if (on_io_tiles(instruction)) {
      transfer(instruction);
      return;
    }
    if (instruction.pass == program::Pass::kUpdate) {
      for (int stream : of_accumulation_) taken_.erase(stream);
    }
    clock = saturating_sum(clock, cycles_of(instruction));
  }

  void transfer(const Instruction& instruction) {
    const bool host = instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut;
    int64_t ready = clock;
    if (instruction.kind == Kind::kStreamIn) {
      // Ahead: as soon as the transfer before has been taken over.
      const auto taken = taken_.find(instruction.channel);
      if (taken != taken_.end()) ready = taken->second;
      const auto& loop = std::get<std::string>(*instruction.attrs.find("overlap"));
      if (loop == "accumulation_loop") of_accumulation_.insert(instruction.channel);
    }
    io_clock_ = saturating_sum(std::max(io_clock_, ready), instruction.cycles);
    if (instruction.kind == Kind::kStreamIn) {
      taken_[instruction.channel] = clock = std::max(clock, io_clock_);
    } else if (!host) {
      for (program::TensorId id : instruction.outputs) arriving_[id] = io_clock_;
    }
  }

  Cursor cursor_;
  int64_t io_clock_ = 0;                           // when the IO tiles are free
  std::map<program::TensorId, int64_t> arriving_;  // from Streaming Memory: when each is there
  // By stream: when its last transfer was taken over, in the loop that it overlaps with.
  std::map<int, int64_t> taken_;
  std::set<int> of_accumulation_;  // streams that overlap with that loop
};

int64_t walk(const program::Program& program, const Rounds& walked) {
  std::vector<Machine> ipus;
  for (const auto& ipu : program.ipus) ipus.emplace_back(ipu.body, walked);
  std::map<int, std::deque<int64_t>> sent;  // by channel: when each message is there
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
          ipu.clock = saturating_sum(ipu.clock, instruction.cycles);
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
      ipu.clock = saturating_sum(latest, ipu.waiting->cycles);
      ipu.waiting = nullptr;
      moved = true;
    }
  }
  int64_t latest = 0;
  for (const Machine& ipu : ipus) latest = std::max(latest, ipu.clock);
  return latest;
}

// How many instructions a walk meets when no loop goes on for more than `most` rounds.
int64_t steps_of(const std::vector<Instruction>& block, int64_t most) {
  int64_t steps = 0;
  for (const Instruction& instruction : block) {
    int64_t inner = 0;
    if (std::any_of(instruction.blocks.begin(), instruction.blocks.end(), has_events)) {
      inner = steps_of(instruction.blocks[0], most);
      if (instruction.kind == Kind::kLoop) {
        inner = saturating_product(std::min(instruction.count, most), inner);
      }
    }
    steps = saturating_sum(steps, saturating_sum(1, inner));
  }
  return steps;
}

// The rounds of loops with events that have more than `most`.
void note_long_loops(const std::vector<Instruction>& block, int64_t most,
                     std::set<int64_t>& found) {
  for (const Instruction& instruction : block) {
    if (std::none_of(instruction.blocks.begin(), instruction.blocks.end(), has_events)) continue;
    if (instruction.kind == Kind::kLoop && instruction.count > most)
      found.insert(instruction.count);
    for (const auto& inner : instruction.blocks) note_long_loops(inner, most, found);
  }
}

// A loop that has gone on for a while adds the same to each further round: what `counts` of rounds
// take follows from what few and twice as many do.
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
  auto steps = [&] {
    int64_t all = 0;
    for (const auto& ipu : program.ipus) all = saturating_sum(all, steps_of(ipu.body, most));
    return all;
  };
  while (most >= 2 && steps() > kMostSteps) most /= 2;
  std::set<int64_t> counts;
  for (const auto& ipu : program.ipus) note_long_loops(ipu.body, most, counts);
  if (most >= 2 && counts.size() <= kMostLongLoops) return extrapolate(program, {}, counts, most);
  int64_t longest = 0;
  for (const auto& ipu : program.ipus) longest = std::max(longest, cycles_of(ipu.body));
  return longest;
}

}  // namespace poptorch::session
