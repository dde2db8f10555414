// How models are compiled and run: the options of an execution, as docs/execution.md has them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "poptorch/strategies.hpp"

namespace poptorch {

// Which steps of a call return their outputs: the last, every n-th, all, or the sum of all.
// Default: Final in training, All in inference.
enum class OutputMode { Default, Final, EveryN, All, Sum };

// How gradients of micro-batches and replicas are combined, and where a mean divides: before they
// are added up, or after.
enum class ReductionType { Sum, Mean };
enum class MeanReductionStrategy { Running, Post };

// Which replicas form a group, and which replicas' values of a grouped weight the host has.
enum class CommGroupType { All, Consecutive, Orthogonal, NoGrouping };
enum class VariableRetrievalMode { OnePerGroup, AllReplicas };

// What happens when a program does not fit into an IPU.
enum class MemoryLimit { Warn, Error, Off };

using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
using OptionValues = std::map<std::string, OptionValue>;

// Where a kind of tensor lives. Values never depend on it; memory accounts do. Counts are elements.
class TensorLocationSettings {
 public:
  // An option of the lines `location`, by its name there.
  TensorLocationSettings& set(const std::string& option, const OptionValue& value);
  TensorLocationSettings& minElementsForOffChip(int64_t count);
  TensorLocationSettings& minElementsForReplicatedTensorSharding(int64_t count);
  TensorLocationSettings& useOnChipStorage(bool use = true);  // not called: by the strategy
  TensorLocationSettings& useReplicatedTensorSharding(bool use = true);
  TensorLocationSettings& useIOTilesToLoad(bool use = true);
  TensorLocationSettings& useIOTilesToStore(bool use = true);

 private:
  friend class Options;
  OptionValues values_;
};

// Setters return the object, so that calls can be chained, and throw for values that the compiler
// would not take.
class Options {
 public:
  // An option by its name in the compiler's table: of the lines `execution` and `optimiser`, and
  // "threads", "memory_limit" and "round_ipu_count". The setters below are the same by the names of
  // Python.
  Options& set(const std::string& option, const OptionValue& value);

  // Steps in one call: inputs hold as many times the rows of a step.
  Options& deviceIterations(int64_t count);
  // Copies of the model, on IPUs of their own, which share the rows of a call.
  Options& replicationFactor(int64_t count);
  // Groups of `size` replicas read the same rows. Call replicationFactor before.
  Options& inputReplicaGrouping(int64_t size, CommGroupType type = CommGroupType::Consecutive);
  // true refuses replicas for models that write buffers; false keeps a buffer a replica.
  Options& broadcastBuffers(bool broadcast = true);
  // `period` belongs to EveryN.
  Options& outputMode(OutputMode mode, int64_t period = 1);
  Options& executionStrategy(const ExecutionStrategy& strategy);
  // Reserve the next power of two of IPUs, where another number is an error.
  Options& autoRoundNumIPUs(bool round = true);
  Options& randomSeed(uint64_t seed);
  // Also returns a value by name, with * and ?: see Executor::getTensorNames. Default: as outputs.
  Options& anchorTensor(const std::string& short_name, const std::string& long_name,
                        OutputMode mode = OutputMode::Default, int64_t period = 1);
  // What Executor::copyNamedBuffersToDevice uploads.
  Options& updatableNamedBuffers(const std::vector<std::string>& names);

  // Precision.
  Options& enableFloatingPointExceptions(bool enable);
  Options& enableStochasticRounding(bool enable);

  // Training. Micro-batches in one step: gradients are combined, then the weights updated once.
  Options& gradientAccumulation(int64_t count);
  Options& accumulationAndReplicationReductionType(ReductionType type);
  Options& setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy strategy);
  Options& setAutomaticLossScaling(bool enable);

  // TensorLocations. Tiles of each IPU for I/O: an even number from 32 to 192.
  Options& numIOTiles(int64_t count);
  Options& setActivationLocation(const TensorLocationSettings& settings);
  Options& setWeightLocation(const TensorLocationSettings& settings);
  Options& setOptimizerLocation(const TensorLocationSettings& settings);
  Options& setAccumulatorLocation(const TensorLocationSettings& settings);

  // Emulator.
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
  int64_t count_of(const std::string& option) const;         // 1 where nothing is set

  std::vector<Line> lines_;
  ExecutionStrategy strategy_ = PipelinedExecution();
  std::vector<std::pair<std::string, AnchorRequest>> anchors_;  // by short name
  std::vector<std::string> updatable_buffers_;
  bool broadcast_buffers_ = true;
};

}  // namespace poptorch
