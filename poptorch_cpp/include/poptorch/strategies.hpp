// Stages, phases and execution strategies: how a model of several blocks runs on its IPUs.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace poptorch {

// Selects how stages are numbered when none are given: as the blocks' IPUs, or as the blocks begin.
enum class AutoStage { SameAsIpu, AutoIncrement };

// Selects when a phase's tensors leave the chip.
enum class Liveness {
  AlwaysLive,
  OffChipAfterFwd,
  OffChipAfterFwdNoOverlap,
  OffChipAfterEachPhase
};

// One or more blocks, by their ids, that run on one IPU without interruption.
class Stage {
 public:
  template <std::convertible_to<std::string>... Ids>
    requires(sizeof...(Ids) > 0)
  Stage(const Ids&... block_ids) : blocks_{std::string(block_ids)...} {}
  // Runs the stage on this IPU, whatever its blocks say. Throws for a number below 0.
  Stage& ipu(int ipu);

  const std::vector<std::string>& blocks() const { return blocks_; }
  std::optional<int> ipu() const { return ipu_; }

 private:
  std::vector<std::string> blocks_;
  std::optional<int> ipu_;
};

// Stages that run in parallel between two exchanges with Streaming Memory. Ids of blocks alone make
// one stage.
class Phase {
 public:
  template <std::convertible_to<std::string>... Ids>
    requires(sizeof...(Ids) > 0)
  Phase(const Ids&... block_ids) : stages_{Stage(block_ids...)} {}
  template <std::same_as<Stage>... Stages>
    requires(sizeof...(Stages) > 0)
  Phase(const Stages&... stages) : stages_{stages...} {}
  // Runs the stages on these IPUs, in their order. Throws unless there are as many.
  Phase& ipus(const std::vector<int>& ids);

  const std::vector<Stage>& stages() const { return stages_; }

 private:
  std::vector<Stage> stages_;
};

// The common base of the four strategies, which differ by how they are made.
class ExecutionStrategy {
 public:
  // The place where the ops of a block run. Only phased strategies use `phase`.
  struct Place {
    int ipu = 0, stage = 0, phase = -1;
  };

  const std::string& name() const { return name_; }
  Liveness liveness() const { return liveness_; }
  bool has_separate_backward_phase() const { return separate_backward_phase_; }
  // Returns the stage of a block. Throws for a block that the strategy does not name.
  const Stage& stage(const std::string& block_id) const;
  // Returns the place of a block. `count` is the number of blocks before it, `first` the number of
  // the first stage. Throws for a block that the strategy cannot place.
  Place place(const std::string& block_id, std::optional<int> ipu_id, int count, int first) const;

 protected:
  ExecutionStrategy(std::string name, AutoStage numbers)
      : name_(std::move(name)), auto_stage_(numbers) {}
  // Takes one stage as each phase of a pipeline. Throws for a block that is named twice.
  ExecutionStrategy(std::string name, std::vector<Phase> phases);
  static std::vector<Phase> phases_of(std::initializer_list<Stage> stages) {
    return {stages.begin(), stages.end()};
  }

  bool is_phased() const;

  std::string name_;
  std::optional<AutoStage> auto_stage_;
  std::vector<Phase> phases_;
  Liveness liveness_ = Liveness::AlwaysLive;
  bool separate_backward_phase_ = false;

 private:
  struct Found {
    int phase = 0, index = 0, stage = 0;  // `index` in the phase, `stage` among all
  };
  const Found* find(const std::string& block_id) const;
  const Stage& stage_at(const Found& found) const;

  std::map<std::string, Found> places_;
};

// Runs the stages at the same time, each on another micro-batch. Takes an AutoStage, or the stages
// in order: PipelinedExecution("front", Stage("middle", "back").ipu(3)).
class PipelinedExecution : public ExecutionStrategy {
 public:
  explicit PipelinedExecution(AutoStage numbers = AutoStage::SameAsIpu)
      : ExecutionStrategy("pipelined", numbers) {}
  template <std::convertible_to<Stage>... Stages>
    requires(sizeof...(Stages) > 0)
  explicit PipelinedExecution(const Stages&... stages)
      : ExecutionStrategy("pipelined", phases_of({Stage(stages)...})) {}
};

// Passes one micro-batch at a time through the IPUs. Takes the arguments of PipelinedExecution.
class ShardedExecution : public ExecutionStrategy {
 public:
  explicit ShardedExecution(AutoStage numbers = AutoStage::SameAsIpu)
      : ExecutionStrategy("sharded", numbers) {}
  template <std::convertible_to<Stage>... Stages>
    requires(sizeof...(Stages) > 0)
  explicit ShardedExecution(const Stages&... stages)
      : ExecutionStrategy("sharded", phases_of({Stage(stages)...})) {}
};

// Runs one phase after the other on one group of IPUs. A stage without an IPU runs on the IPU with
// its number in the phase. State is on the chip for the phases that use it.
class SerialPhasedExecution : public ExecutionStrategy {
 public:
  template <std::convertible_to<Phase>... Phases>
    requires(sizeof...(Phases) > 0)
  explicit SerialPhasedExecution(const Phases&... phases)
      : ExecutionStrategy("serial_phased", std::vector<Phase>{Phase(phases)...}) {}
  // Selects which values leave the chip between phases.
  SerialPhasedExecution& setTensorsLiveness(Liveness liveness);
  // Runs the last phase's backward pass in a separate phase.
  SerialPhasedExecution& useSeparateBackwardPhase(bool use = true);
};

// Runs even phases on even IPUs, and odd phases on odd IPUs. The i-th stage (from 0) of a phase
// runs on IPU 2i, or 2i + 1, unless it has an IPU.
class ParallelPhasedExecution : public ExecutionStrategy {
 public:
  template <std::convertible_to<Phase>... Phases>
    requires(sizeof...(Phases) > 0)
  explicit ParallelPhasedExecution(const Phases&... phases)
      : ExecutionStrategy("parallel_phased", std::vector<Phase>{Phase(phases)...}) {}
  // Keeps values that wait for the backward pass off the chip.
  ParallelPhasedExecution& sendTensorsOffChipAfterFwd(bool off_chip = true);
  ParallelPhasedExecution& useSeparateBackwardPhase(bool use = true);
};

}  // namespace poptorch
