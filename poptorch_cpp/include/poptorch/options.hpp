// The options of an execution: how models are compiled and run. docs/execution.md describes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "poptorch/strategies.hpp"

namespace poptorch {

// Selects the steps of a call whose outputs are returned: the last, every n-th, all, or the sum of
// all. Default means Final in training and All in inference.
enum class OutputMode { Default, Final, EveryN, All, Sum };

// Select how gradients of micro-batches and replicas are combined, and whether a mean divides
// before they are added up, or after.
enum class ReductionType { Sum, Mean };
enum class MeanReductionStrategy { Running, Post };

// Select which replicas form a group, and which replicas' values of a grouped weight the host has.
enum class CommGroupType { All, Consecutive, Orthogonal, NoGrouping };
enum class VariableRetrievalMode { OnePerGroup, AllReplicas };

// Selects which IPUs of a pipeline wait for each other: all at every transfer, or with
// SinglePipeline not at those of others with the host. ReplicaAndLadder is modelled as Full.
enum class SyncPattern { Full, SinglePipeline, ReplicaAndLadder };

// Selects what happens when a program does not fit into an IPU.
enum class MemoryLimit { Warn, Error, Off };

using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
using OptionValues = std::map<std::string, OptionValue>;

// Selects where a kind of tensor is stored, which changes memory reports but never values. Counts
// are in elements.
class TensorLocationSettings {
 public:
  // Sets an option of the compiler's `location` lines, by its name there.
  TensorLocationSettings& set(const std::string& option, const OptionValue& value);
  TensorLocationSettings& minElementsForOffChip(int64_t count);
  TensorLocationSettings& minElementsForReplicatedTensorSharding(int64_t count);
  TensorLocationSettings& useOnChipStorage(bool use = true);  // default: by the strategy
  TensorLocationSettings& useReplicatedTensorSharding(bool use = true);
  TensorLocationSettings& useIOTilesToLoad(bool use = true);
  TensorLocationSettings& useIOTilesToStore(bool use = true);

 private:
  friend class Options;
  OptionValues values_;
};

// Setters return the object, so that calls can be chained, and throw for values that the compiler
// refuses.
class Options {
 public:
  // Sets an option by its name in the compiler's table: one of the lines `execution` and
  // `optimiser`, or "threads", "memory_limit" or "round_ipu_count". The setters below set the same
  // options, by their names in Python.
  Options& set(const std::string& option, const OptionValue& value);

  // Sets the number of steps in one call. Inputs hold `count` times the rows of one step.
  Options& deviceIterations(int64_t count);
  // Sets the number of copies of the model. Each has separate IPUs, and they share the rows of a
  // call.
  Options& replicationFactor(int64_t count);
  // Makes groups of `size` replicas read the same rows. Call replicationFactor before.
  Options& inputReplicaGrouping(int64_t size, CommGroupType type = CommGroupType::Consecutive);
  // Refuses replicas for models that write buffers (true), or keeps separate buffers for each
  // replica (false).
  Options& broadcastBuffers(bool broadcast = true);
  // Only EveryN uses `period`.
  Options& outputMode(OutputMode mode, int64_t period = 1);
  Options& executionStrategy(const ExecutionStrategy& strategy);
  Options& syncPattern(SyncPattern pattern);
  // Reserves the next power of two of IPUs for another number, which is an error otherwise.
  Options& autoRoundNumIPUs(bool round = true);
  Options& randomSeed(uint64_t seed);
  // Also returns the values whose names match `long_name`, which may contain * and ?: see
  // Executor::getTensorNames. With Default the mode is that of the outputs.
  Options& anchorTensor(const std::string& short_name, const std::string& long_name,
                        OutputMode mode = OutputMode::Default, int64_t period = 1);
  // Names the buffers that Executor::copyNamedBuffersToDevice uploads.
  Options& updatableNamedBuffers(const std::vector<std::string>& names);

  // Options of `Precision` in Python.
  Options& enableFloatingPointExceptions(bool enable);
  Options& enableStochasticRounding(bool enable);

  // Options of `Training` in Python. gradientAccumulation sets the micro-batches in one step: their
  // gradients are combined, then the weights are updated once.
  Options& gradientAccumulation(int64_t count);
  Options& accumulationAndReplicationReductionType(ReductionType type);
  Options& setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy strategy);
  Options& setAutomaticLossScaling(bool enable);

  // Options of `TensorLocations` in Python. numIOTiles sets how many tiles of each IPU are for I/O:
  // an even number from 32 to 192.
  Options& numIOTiles(int64_t count);
  Options& setActivationLocation(const TensorLocationSettings& settings);
  Options& setWeightLocation(const TensorLocationSettings& settings);
  Options& setOptimizerLocation(const TensorLocationSettings& settings);
  Options& setAccumulatorLocation(const TensorLocationSettings& settings);

  // Options of `Emulator` in Python.
  Options& checkIndices(bool check);
  Options& memoryLimit(MemoryLimit limit);

 private:
  friend struct Description;

  struct Line {
    std::string keyword, name;
    OptionValues values;
  };
  struct AnchorRequest {
    std::string long_name;
    OutputMode mode;
    int64_t period;
  };
  Options& location(const std::string& kind, const TensorLocationSettings& settings);
  const OptionValue* find(const std::string& option) const;  // the last that was set

  std::vector<Line> lines_;
  ExecutionStrategy strategy_ = PipelinedExecution();
  std::vector<std::pair<std::string, AnchorRequest>> anchors_;  // by short name
  std::vector<std::string> updatable_buffers_;
  bool broadcast_buffers_ = true;
};

}  // namespace poptorch
