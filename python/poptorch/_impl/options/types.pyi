"""What the rows of the option tables make of their classes, for type checkers.

Made from the tables by tools/write_option_types.py.
"""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Self

from poptorch import (
    AutoStage,
    CommGroupType,
    ConnectionType,
    HalfFloatCastingBehavior,
    MeanReductionStrategy,
    OutputMode,
    ReductionType,
    SyncPattern,
    TensorLocationSettings,
)
from poptorch._impl.options.group_class import OptionGroup
from poptorch._impl.placement.strategies import ExecutionStrategy
from torch import dtype

class PrecisionRows(OptionGroup):
    enable_stochastic_rounding: bool
    enable_floating_point_exceptions: bool
    partials_type: dtype
    def enableStochasticRounding(self, enabled: bool) -> Self:
        """Round float16 results up or down at random, in proportion."""
    def enableFloatingPointExceptions(self, enabled: bool) -> Self:
        """Stop with an error at invalid operations, division by zero and overflow; slow."""
    def setPartialsType(self, dtype: dtype) -> Self:
        """Type of the partial sums of matmul and convolution."""
    def halfFloatCasting(self, half_float_casting: HalfFloatCastingBehavior) -> Self:
        """Deprecated."""
    def runningStatisticsAlwaysFloat(self, value: bool) -> Self:
        """Deprecated."""

class TrainingRows(OptionGroup):
    gradient_accumulation: int
    accumulation_and_replication_reduction_type: ReductionType
    meanAccumulationAndReplicationReductionStrategy: MeanReductionStrategy
    auto_loss_scaling: bool
    convolution_dithering: bool
    def gradientAccumulation(self, gradient_accumulation: int) -> Self:
        """Micro-batches whose gradients make one weight update."""
    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> Self:
        """Whether gradients of micro-batches and replicas are averaged or added."""
    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: MeanReductionStrategy
    ) -> Self:
        """Whether gradients are divided before they are added up (Running) or after (Post)."""
    def setAutomaticLossScaling(self, enabled: bool) -> Self:
        """Adapt the loss scale to the gradients while training."""
    def setConvolutionDithering(self, enabled: bool) -> Self:
        """Spread convolutions over tiles."""

class JitRows(OptionGroup):
    def traceModel(self, trace_model: bool) -> Self:
        """Deprecated; True is refused."""

class TensorLocationSettingsRows(OptionGroup):
    onChip: int | None
    def useOnChipStorage(self, use: bool | None = True) -> Self:
        """On chip (True), in Streaming Memory (False) or by default (None)."""
    def minElementsForOffChip(self, min_elements: int) -> Self:
        """Tensors of fewer elements always stay on chip."""
    def useReplicatedTensorSharding(self, use: bool = True) -> Self:
        """Shard over replicas."""
    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> Self:
        """Tensors of fewer elements are never sharded over replicas."""
    def useIOTilesToLoad(self, use: bool = True) -> Self:
        """Load through the IO tiles, if there are any."""
    def useIOTilesToStore(self, use: bool = True) -> Self:
        """Store through the IO tiles, if there are any."""

class TensorLocationRows(OptionGroup):
    location_activation: dict[str, int]
    location_weight: dict[str, int]
    location_optimizer: dict[str, int]
    location_accumulator: dict[str, int]
    def numIOTiles(self, num_tiles: int) -> Self:
        """Tiles of each IPU that are set apart for I/O."""
    def setActivationLocation(self, location: TensorLocationSettings) -> Self:
        """Location of activations."""
    def setWeightLocation(self, location: TensorLocationSettings) -> Self:
        """Location of weights."""
    def setOptimizerLocation(self, location: TensorLocationSettings) -> Self:
        """Location of optimiser state."""
    def setAccumulatorLocation(self, location: TensorLocationSettings) -> Self:
        """Location of gradient accumulators."""

class DistributedRows(OptionGroup):
    num_distributed_processes: int
    distributed_process_id: int
    ipuof_configs: dict[str, Any]
    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> Self:
        """Variables that hold the number of processes and this one's number;
        `OMPI_COMM_WORLD_SIZE` and `OMPI_COMM_WORLD_RANK` at first."""
    def configureProcessId(self, process_id: int, num_processes: int) -> Self:
        """This process's number, and how many."""
    def disable(self) -> Self:
        """One process, whatever the environment says."""

class EmulatorRows(OptionGroup):
    device_pool: tuple[int, int, str] | None
    check_indices: bool
    memory_limit: str
    def devicePool(self, ipus: int, version: int = 2, folder: str | PathLike[str] = "") -> Self:
        """How many IPUs there are, a power of two, of version 1, 2 or 21; processes with the same
        folder share them. None: POPTORCH_IPU_POOL, else 64 of version 2."""
    def checkIndices(self, enabled: bool) -> Self:
        """Stop with an error where an index of gather, scatter, one_hot or the like is out of
        range, which otherwise reads zeros and writes nothing."""
    def memoryLimit(self, mode: str) -> Self:
        """What happens when a program does not fit into an IPU: 'warn', 'error' or 'off'. Empty:
        POPTORCH_MEMORY_LIMIT, else 'warn'."""

class PopartRows(OptionGroup):
    options: dict[str, Any]
    def set(self, key: str, value: Any) -> Self:  # type: ignore[override]
        """Records one session option."""
    def setEngineOptions(self, values: Mapping[str, Any]) -> Self:
        """Records engine options."""
    def setPatterns(self, patterns: Mapping[str, bool], level: int = 2) -> Self:
        """Records patterns and their level."""

class OptionsRows(OptionGroup):
    device_iterations: int
    auto_round_num_ipus: bool
    replication_factor: int
    input_group_size: int
    input_cgt: CommGroupType
    broadcast_buffers: bool
    output_mode: int
    output_return_period: int
    _execution_strategy: ExecutionStrategy
    available_memory_proportion: dict[int, float]
    log_dir: str
    max_repeat_logs: int
    model_name: str
    cache_path: str | PathLike[str] | None
    use_model: bool
    connection_type: int
    sync_pattern: int
    ipu_id: int
    ipu_version: int
    anchored_tensors: dict[str, Any]
    random_seed: int
    stable_norm: bool
    synthetic_data: bool
    log_cycle_count: bool
    profile_dir: str | PathLike[str] | None
    _module_namescope_enabled: bool
    updatable_named_buffers: list[str]
    _relax_optimizer_checks: bool
    _show_compilation_progress_bar: bool
    _source_location_excludes: list[str]
    def deviceIterations(self, device_iterations: int) -> Self:
        """Iterations of the whole step that one call runs on the device."""
    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Self:
        """Reserve the next power of two of IPUs, where another number is an error."""
    def replicationFactor(self, replication_factor: int) -> Self:
        """Data-parallel copies."""
    def inputReplicaGrouping(self, input_group_size: int, input_group_type: CommGroupType) -> Self:
        """Replicas of a group (of a size and a CommGroupType) share one input slice."""
    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Self:
        """True refuses replicas for models that write buffers; False keeps one buffer a
        replica."""
    def outputMode(self, output_mode: OutputMode, output_return_period: int | None = None) -> Self:
        """Which micro-batches' outputs a call returns; EveryN takes a period."""
    def setExecutionStrategy(self, strategy: ExecutionStrategy | AutoStage) -> Self:
        """How a model that is spread over several IPUs runs on them."""
    def setAvailableMemoryProportion(
        self, available_memory_proportion: Mapping[str, float]
    ) -> Self:
        """Share of an IPU's memory for temporary data, by IPU: {'IPU0': 0.5}."""
    def logDir(self, log_dir: str) -> Self:
        """Folder for `<model name>.log`, what each compilation made; `.`: none is written."""
    def maxRepeatLogs(self, max_lines: int | None) -> Self:
        """How often one message of the Python layer may repeat; None: without limit."""
    def modelName(self, name: str) -> Self:
        """Name of the model in logs and reports, and of its files; empty: `training` or
        `inference`."""
    def enableExecutableCaching(self, path: str | PathLike[str] | None) -> Self:
        """Folder that keeps executables, so that equal models are compiled once; None: none are
        kept. At first POPTORCH_CACHE_DIR."""
    def useIpuModel(self, use_model: bool) -> Self:
        """Run on the IPU Model; wins over POPTORCH_IPU_MODEL."""
    def connectionType(self, connection_type: ConnectionType) -> Self:
        """When to attach to a device."""
    def syncPattern(self, sync_pattern: SyncPattern) -> Self:
        """Which IPUs synchronise."""
    def useIpuId(self, ipu_id: int) -> Self:
        """Which device of the pool to attach to: single IPUs come first, then pairs, and so
        on."""
    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Self:
        """Compile for IPU version 1, 2 or 21 without attaching."""
    def randomSeed(self, random_seed: int) -> Self:
        """Seed of the device's generators (None: 0); also seeds torch's."""
    def enableStableNorm(self, enabled: bool) -> Self:
        """Two-pass variances; ours always are."""
    def enableSyntheticData(self, enabled: object) -> Self:
        """Random data in place of the inputs, drawn once; no transfers are told of."""
    def logCycleCount(self, log_cycle_count: bool) -> Self:
        """Count cycles: see cycleCount()."""
    def enableProfiling(self, profile_dir: str | PathLike[str] | None = None) -> Self:
        """Write reports into the folder `<profile_dir>/<model name>`; None is the current one."""
    def disableModuleNamescope(self) -> Self:
        """Op names without module paths."""
    def updatableNamedBuffers(self, buffers: Iterable[str]) -> Self:
        """Buffers that copyNamedBuffersToDevice() uploads."""
    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Self:
        """Unexpected optimiser attributes are logged at debug level only."""
    def showCompilationProgressBar(self, show: bool = True) -> Self:
        """Show a progress bar while compiling."""
    def sourceLocationExcludes(self, excludes: Iterable[str]) -> Self:
        """Files (by substring) that source locations of ops skip."""
    def appendToLocationExcludes(self, *excludes: str) -> Self:
        """Adds to sourceLocationExcludes."""
