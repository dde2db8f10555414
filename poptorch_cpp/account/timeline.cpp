// Walks each IPU's list and tracks its micro-batch counter.
#include "account/timeline.hpp"

#include <algorithm>

#include "account/simulate.hpp"
#include "support/saturate.hpp"

namespace poptorch::account {
namespace {

using program::Instruction;
using Kind = Instruction::Kind;

bool is_update(const Instruction& instruction) {
  return instruction.pass == program::Pass::kUpdate;
}

bool has_phases(const std::vector<Instruction>& block) {
  return std::any_of(block.begin(), block.end(), [](const Instruction& instruction) {
    return instruction.phase >= 0 ||
           std::any_of(instruction.blocks.begin(), instruction.blocks.end(), has_phases);
  });
}

class Walk {
 public:
  Walk(const program::Program& program, int ipu, int64_t micro_batches, Timeline& timeline)
      : program_(program),
        ipu_(ipu),
        micro_batches_(micro_batches),
        phased_(std::any_of(program.ipus.begin(), program.ipus.end(),
                            [](const auto& each) { return has_phases(each.body); })),
        timeline_(timeline),
        first_(timeline.work.size()) {}

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
    if (loop.op_id != 0 && loop.count > kMostRounds) {  // one op of one micro-batch
      const int64_t micro_batch = counter_ + loop.micro_batch_offset;
      if (micro_batch >= micro_batches_ || is_update(loop)) return;
      int64_t& cycles = current(loop, micro_batch).cycles;
      cycles = support::saturating_sum(cycles, cycles_of(loop));
      return;
    }
    const bool between = between_updates_;
    between_updates_ = !loop.per_micro_batch && loop.rewind == 0 && loop.op_id == 0;
    for (int64_t round = 0; round < loop.count && counter_ - kLongest < micro_batches_; ++round) {
      block(loop.blocks[0]);
      counter_ += loop.per_micro_batch;
      counter_ -= loop.rewind;
    }
    between_updates_ = between;
  }

  void step(const Instruction& instruction) {
    const int64_t micro_batch = counter_ + instruction.micro_batch_offset;
    if (micro_batch >= micro_batches_ || is_update(instruction)) return;
    if (instruction.kind == Kind::kReceive || instruction.kind == Kind::kSync ||
        instruction.kind == Kind::kStash || instruction.kind == Kind::kRestore) {
      return;
    }
    if (instruction.pass == program::Pass::kTransfer) {
      transfer(instruction, micro_batch);
      return;
    }
    current(instruction, micro_batch).cycles += instruction.cycles;
  }

  void transfer(const Instruction& instruction, int64_t micro_batch) {
    const bool in = !instruction.outputs.empty();
    Transfer transfer{.ipu = ipu_,
                      .phase = instruction.phase,
                      .micro_batch = micro_batch,
                      .cycles = instruction.cycles,
                      .io_tiles = on_io_tiles(instruction)};
    switch (instruction.kind) {
      case Kind::kStreamIn:
      case Kind::kStreamOut: {
        if (!transfer.io_tiles) return;
        transfer.kind = in ? Transfer::Kind::kIn : Transfer::Kind::kOut;
        const auto& stream = program_.streams[instruction.channel];
        transfer.name = stream.host.name.text();
        transfer.bytes = stream.host.type.bytes();
        break;
      }
      case Kind::kOffChipLoad:
      case Kind::kOffChipStore: {
        // Transfers of a weight update, or around an op, are not transfers between phases.
        if (between_updates_ || !phased_) return;
        const bool load = instruction.kind == Kind::kOffChipLoad;
        transfer.kind = load ? Transfer::Kind::kLoad : Transfer::Kind::kStore;
        auto tensor_of = [&](const std::vector<program::TensorId>& ids) -> const program::Tensor& {
          return program_.tensors[ids[0]];
        };
        const auto& on_chip = tensor_of(load ? instruction.outputs : instruction.inputs);
        transfer.name = on_chip.name.text();
        transfer.bytes = on_chip.type.bytes();
        if (instruction.channel >= 0) break;
        const auto& state = tensor_of(load ? instruction.inputs : instruction.outputs);
        transfer.name = program_.states[state.index].slot.name.text();
        break;
      }
      default:
        return;
    }
    timeline_.transfers.push_back(std::move(transfer));
  }

  // Looks at the two newest, which may both continue: parts of a backward pass run before the
  // instructions that they wait for.
  StageWork& current(const Instruction& instruction, int64_t micro_batch) {
    const int stage = std::max(instruction.stage, 0);
    const int phase = instruction.phase;
    const bool backward = instruction.pass == program::Pass::kBackward;
    auto& all = timeline_.work;
    for (size_t i = all.size(); i-- > first_ && i + 2 >= all.size();) {
      StageWork& work = all[i];
      if (work.stage == stage && work.phase == phase && work.micro_batch == micro_batch &&
          work.backward == backward) {
        return work;
      }
    }
    all.push_back({.ipu = ipu_,
                   .stage = stage,
                   .phase = phase,
                   .micro_batch = micro_batch,
                   .backward = backward});
    return all.back();
  }

  // The maximum lag of a pipeline's stages after the counter.
  static constexpr int64_t kLongest = 256;
  // The maximum number of rounds of an op's loop that is shown instruction by instruction.
  static constexpr int64_t kMostRounds = 4096;

  const program::Program& program_;
  int ipu_;
  int64_t micro_batches_, counter_ = 0;
  bool between_updates_ = false;  // in a loop around the loop over micro-batches
  bool phased_;
  Timeline& timeline_;
  size_t first_;
};

}  // namespace

Timeline timeline(const program::Program& program, int64_t micro_batches) {
  Timeline timeline;
  micro_batches = std::min(micro_batches, std::max<int64_t>(program.micro_batches_per_run, 1));
  for (size_t ipu = 0; ipu < program.ipus.size(); ++ipu) {
    Walk(program, static_cast<int>(ipu), micro_batches, timeline).block(program.ipus[ipu].body);
  }
  return timeline;
}

}  // namespace poptorch::account
