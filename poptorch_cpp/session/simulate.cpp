// Implements simulate.hpp.
#include "session/simulate.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace poptorch::session {

using program::Instruction;
using Kind = Instruction::Kind;

int64_t cycles_of(const std::vector<Instruction>& block) {
  int64_t total = 0;
  for (const Instruction& instruction : block) {
    total += instruction.cycles;
    if (instruction.kind == Kind::kLoop) {
      total += instruction.count * cycles_of(instruction.blocks[0]);
    } else {
      int64_t longest = 0;
      for (const auto& inner : instruction.blocks) longest = std::max(longest, cycles_of(inner));
      total += longest;
    }
  }
  return total;
}

namespace {

bool exchanges(const std::vector<Instruction>& block) {
  return std::any_of(block.begin(), block.end(), [](const Instruction& instruction) {
    return instruction.kind == Kind::kSend || instruction.kind == Kind::kReceive ||
           instruction.kind == Kind::kSync ||
           std::any_of(instruction.blocks.begin(), instruction.blocks.end(), exchanges);
  });
}

// One IPU's place in its list: a stack of blocks, each with what is left of its loop.
class Cursor {
 public:
  explicit Cursor(const std::vector<Instruction>& body) { stack_.push_back({&body, 0, 1}); }

  // Advances until an exchange or the end; returns the exchange, or nullptr at the end.
  const Instruction* next(int64_t& clock) {
    while (!stack_.empty()) {
      Level& level = stack_.back();
      if (level.index == level.block->size()) {
        level.index = 0;
        if (--level.rounds <= 0) stack_.pop_back();
        continue;
      }
      const Instruction& instruction = (*level.block)[level.index++];
      if (instruction.kind == Kind::kLoop && exchanges(instruction.blocks[0])) {
        if (instruction.count > 0) stack_.push_back({&instruction.blocks[0], 0, instruction.count});
      } else if (instruction.kind == Kind::kSend || instruction.kind == Kind::kReceive ||
                 instruction.kind == Kind::kSync) {
        return &instruction;
      } else {
        clock += instruction.cycles;
        if (instruction.kind == Kind::kLoop) {
          clock += instruction.count * cycles_of(instruction.blocks[0]);
        } else if (instruction.kind == Kind::kIf) {
          clock += std::max(cycles_of(instruction.blocks[0]), cycles_of(instruction.blocks[1]));
        }
      }
    }
    return nullptr;
  }

 private:
  struct Level {
    const std::vector<Instruction>* block;
    size_t index;
    int64_t rounds;
  };
  std::vector<Level> stack_;
};

}  // namespace

int64_t simulate(const program::Program& program) {
  struct Ipu {
    Cursor cursor;
    int64_t clock = 0;
    const Instruction* waiting = nullptr;
    bool done = false;
  };
  std::vector<Ipu> ipus;
  for (const auto& ipu : program.ipus) ipus.push_back({Cursor(ipu.body)});
  std::map<int, std::deque<int64_t>> sent;  // by channel: when each message is there
  for (bool moved = true; moved;) {
    moved = false;
    for (Ipu& ipu : ipus) {
      while (!ipu.done) {
        if (!ipu.waiting) {
          ipu.waiting = ipu.cursor.next(ipu.clock);
          moved = true;
          if (!ipu.waiting) {
            ipu.done = true;
            break;
          }
        }
        const Instruction& instruction = *ipu.waiting;
        if (instruction.kind == Kind::kSync) break;
        if (instruction.kind == Kind::kSend) {
          ipu.clock += instruction.cycles;
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
    const bool all_sync = std::all_of(ipus.begin(), ipus.end(), [](const Ipu& ipu) {
      return ipu.done || (ipu.waiting && ipu.waiting->kind == Kind::kSync);
    });
    int64_t latest = 0;
    for (const Ipu& ipu : ipus) latest = std::max(latest, ipu.clock);
    for (Ipu& ipu : ipus) {
      if (!all_sync || ipu.done) continue;
      ipu.clock = latest + ipu.waiting->cycles;
      ipu.waiting = nullptr;
      moved = true;
    }
  }
  int64_t latest = 0;
  for (const Ipu& ipu : ipus) latest = std::max(latest, ipu.clock);
  return latest;
}

}  // namespace poptorch::session
