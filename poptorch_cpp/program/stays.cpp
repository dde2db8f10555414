// One walk over an IPU's instruction list computes the stays.
#include "program/stays.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/table.hpp"

namespace poptorch::program {
namespace {

using support::InternalError;
using support::str;

constexpr int32_t kNone = -1;

// The lifetime of one value in its tensor's memory.
struct Stay {
  TensorId id = kNoTensor;
  int64_t begin = 0, end = 0;  // positions of the write and of the last use
  int32_t owner = 0;           // union-find: stays that are one allocation
};

int32_t first_of(std::vector<Stay>& stays, int32_t index) {
  auto owner = [&](int32_t of) -> int32_t& { return stays[of].owner; };
  while (owner(index) != index) index = owner(index) = owner(owner(index));
  return index;
}

class Walk {
 public:
  Walk(const Program& program, int ipu, Stays& made)
      : program_(program), ipu_(ipu), made_(made), now_(program.tensors.size(), kNone) {}

  void run() {
    walk(program_.ipus[ipu_].body);
    for (const auto& [index, when] : overwritten_) {
      if (stay(index).end > when) {
        throw InternalError(str("[program] IPU ", ipu_, " needs %", tensor(stay(index).id).name,
                                " after it was overwritten in place."));
      }
    }
    join_allocations();
  }

 private:
  // Records a loop's first access to a tensor, and the tensor's stay when the loop began.
  struct Crossing {
    bool exposed;
    int32_t entry;
  };
  struct Loop {
    int32_t first_stay;
    std::map<TensorId, Crossing> tensors = {};
  };

  const Tensor& tensor(TensorId id) const { return program_.tensors[id]; }
  bool in_arena(TensorId id) const { return id != kNoTensor && tensor(id).base == Base::kArena; }
  Stay& stay(int32_t index) { return all_[index]; }
  int32_t& now(TensorId id) { return now_[id]; }

  void join(int32_t a, int32_t b) { stay(first_of(all_, b)).owner = first_of(all_, a); }

  void note_crossing(TensorId id, bool exposed) {
    if (!loops_.empty()) loops_.back().tensors.emplace(id, Crossing{exposed, now(id)});
  }

  void read(TensorId id) {
    if (!in_arena(id)) return;
    if (now(id) == kNone) {
      throw InternalError(
          str("[program] IPU ", ipu_, " reads %", tensor(id).name, " before anything writes it."));
    }
    note_crossing(id, true);
    stay(now(id)).end = position_;
  }

  // Extends the current stay in a conditional block, because the write may not happen; else begins
  // a stay.
  void write(TensorId id) {
    if (!in_arena(id)) return;
    note_crossing(id, conditional_ > 0);
    if (now(id) == kNone || conditional_ == 0) {
      now(id) = static_cast<int32_t>(all_.size());
      all_.push_back({id, position_, position_, now(id)});
      if (!loops_.empty()) by_tensor_[id].push_back(now(id));
    }
    stay(now(id)).end = position_;
  }

  void walk(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      ++position_;
      ++instruction_;
      made_.instructions.push_back(instruction_);
      for (TensorId id : instruction.inputs) read(id);
      note_temporary(instruction.temporary);
      const std::vector<int32_t> operands = stays_in_place(instruction);
      for (TensorId id : instruction.outputs) write(id);
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] != kNone && in_arena(instruction.outputs[i])) {
          join(operands[i], now(instruction.outputs[i]));
        }
      }
      const bool loop = instruction.kind == Instruction::Kind::kLoop;
      if (loop) loops_.push_back({static_cast<int32_t>(all_.size())});
      conditional_ += !loop;
      for (const auto& inner : instruction.blocks) walk(inner);
      conditional_ -= !loop;
      if (loop) close_loop();
    }
  }

  void note_temporary(const Temporary& temporary) {
    if (temporary.bytes == 0) return;
    made_.allocations.push_back(
        {kNoTensor, position_, position_, temporary.offset, temporary.bytes});
    made_.peak = std::max(made_.peak, temporary.offset + temporary.bytes);
  }

  // Returns, for each result, the stay of the operand that it overwrites.
  std::vector<int32_t> stays_in_place(const Instruction& instruction) {
    std::vector<int32_t> operands;
    for (size_t i = 0; i < instruction.in_place.size(); ++i) {
      operands.push_back(kNone);
      if (instruction.in_place[i] < 0) continue;
      const TensorId from = instruction.inputs[instruction.in_place[i]];
      if (!in_arena(from)) continue;
      const TensorId to = instruction.outputs[i];
      if (in_arena(to) && tensor(to).offset != tensor(from).offset) {
        throw InternalError(str("[program] %", tensor(to).name, " is in place of %",
                                tensor(from).name, " but lies at ", tensor(to).offset, ", not ",
                                tensor(from).offset, "."));
      }
      operands[i] = now(from);
      if (from != to && !instruction.view) overwritten_.emplace_back(now(from), position_);
    }
    return operands;
  }

  // A value that a loop reads before it writes is needed again in the next round.
  void close_loop() {
    ++position_;
    made_.instructions.push_back(instruction_);
    const Loop loop = std::move(loops_.back());
    loops_.pop_back();
    for (const auto& [id, crossing] : loop.tensors) {
      if (crossing.exposed && crossing.entry != kNone) {
        stay(crossing.entry).end = stay(now(id)).end = position_;
        const auto& written = by_tensor_[id];
        for (size_t i = written.size(); i-- > 0 && written[i] >= loop.first_stay;) {
          join(crossing.entry, written[i]);
        }
      }
      if (!loops_.empty()) loops_.back().tensors.emplace(id, crossing);
    }
  }

  void join_allocations() {
    std::vector<Allocation>& made = made_.allocations;
    std::vector<int32_t> slot(all_.size(), kNone);
    for (size_t i = 0; i < all_.size(); ++i) {
      const Stay& one = all_[i];
      made_.peak = std::max(made_.peak, end_of(tensor(one.id)));
      if (tensor(one.id).type.bytes() == 0) continue;
      int32_t& group = slot[first_of(all_, static_cast<int32_t>(i))];
      if (group == kNone) {
        group = static_cast<int32_t>(made.size());
        made.push_back({one.id, one.begin, one.end, 0, 0});
        continue;
      }
      Allocation& whole = made[group];
      whole.begin = std::min(whole.begin, one.begin);
      whole.end = std::max(whole.end, one.end);
      if (end_of(tensor(one.id)) > end_of(tensor(whole.id))) whole.id = one.id;
    }
    for (Allocation& one : made) {
      if (one.id == kNoTensor) continue;
      one.offset = tensor(one.id).offset;
      one.bytes = tensor(one.id).type.bytes();
    }
    std::sort(made.begin(), made.end(), [](const Allocation& a, const Allocation& b) {
      return std::tie(a.begin, a.id) < std::tie(b.begin, b.id);
    });
  }

  const Program& program_;
  int ipu_;
  Stays& made_;
  int64_t position_ = 0;
  int32_t instruction_ = kNone;
  int conditional_ = 0;                    // open conditional blocks
  support::Table<int32_t, Stay> all_;      // in order of their writes
  support::Table<TensorId, int32_t> now_;  // by tensor: its stay at this position
  std::unordered_map<TensorId, std::vector<int32_t>> by_tensor_;  // stays begun inside loops
  std::vector<Loop> loops_;
  std::vector<std::pair<int32_t, int64_t>> overwritten_;  // (stay, when)
};

}  // namespace

int64_t end_of(const Tensor& tensor) { return tensor.offset + tensor.type.bytes(); }

Stays stays_of(const Program& program, int ipu) {
  Stays made;
  Walk(program, ipu, made).run();
  return made;
}

}  // namespace poptorch::program
