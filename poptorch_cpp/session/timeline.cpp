// Implements timeline.hpp: a walk over each IPU's list with its micro-batch counter.
#include "session/timeline.hpp"

#include <algorithm>

namespace poptorch::session {
namespace {

using program::Instruction;
using Kind = Instruction::Kind;

class Walk {
 public:
  Walk(int ipu, int64_t micro_batches, std::vector<StageWork>& work)
      : ipu_(ipu), micro_batches_(micro_batches), work_(work), first_(work.size()) {}

  void block(const std::vector<Instruction>& instructions) {
    for (const Instruction& instruction : instructions) {
      if (instruction.kind == Kind::kLoop) {
        loop(instruction);
      } else {
        step(instruction);
      }
    }
  }

 private:
  void loop(const Instruction& loop) {
    for (int64_t round = 0; round < loop.count && counter_ - kLongest < micro_batches_; ++round) {
      block(loop.blocks[0]);
      counter_ += loop.per_micro_batch;
      counter_ -= loop.rewind;
    }
  }

  void step(const Instruction& instruction) {
    if (instruction.kind == Kind::kReceive || instruction.kind == Kind::kSync ||
        instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut ||
        instruction.kind == Kind::kStash || instruction.kind == Kind::kRestore ||
        instruction.pass == program::Pass::kUpdate ||
        instruction.pass == program::Pass::kTransfer) {
      return;
    }
    const int64_t micro_batch = counter_ + instruction.micro_batch_offset;
    if (micro_batch >= micro_batches_) return;
    const int stage = std::max(instruction.stage, 0);
    const bool backward = instruction.pass == program::Pass::kBackward;
    StageWork& work = current(stage, micro_batch, backward);
    work.cycles += instruction.cycles;
  }

  // The two newest may both go on: parts of a backward pass come before what they wait for.
  StageWork& current(int stage, int64_t micro_batch, bool backward) {
    for (size_t i = work_.size(); i-- > first_ && i + 2 >= work_.size();) {
      StageWork& work = work_[i];
      if (work.stage == stage && work.micro_batch == micro_batch && work.backward == backward) {
        return work;
      }
    }
    work_.push_back(
        {.ipu = ipu_, .stage = stage, .micro_batch = micro_batch, .backward = backward});
    return work_.back();
  }

  // Stages of a pipeline lag behind the counter by at most this.
  static constexpr int64_t kLongest = 256;

  int ipu_;
  int64_t micro_batches_, counter_ = 0;
  std::vector<StageWork>& work_;
  size_t first_;
};

}  // namespace

std::vector<StageWork> timeline(const program::Program& program, int64_t micro_batches) {
  std::vector<StageWork> work;
  for (size_t ipu = 0; ipu < program.ipus.size(); ++ipu) {
    Walk(static_cast<int>(ipu), micro_batches, work).block(program.ipus[ipu].body);
  }
  return work;
}

}  // namespace poptorch::session
