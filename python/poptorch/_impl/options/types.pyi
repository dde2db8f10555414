"""The setters and attributes that option tables give their classes, for type checkers.

tools/write_option_types.py makes this file from the tables.
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
        """Sets the dtype of partial sums of matmuls and convolutions in float16. It changes the
        modelled cycles, never values."""
    def halfFloatCasting(self, half_float_casting: HalfFloatCastingBehavior) -> Self:
        """Deprecated; has no effect."""
    def runningStatisticsAlwaysFloat(self, value: bool) -> Self:
        """Deprecated; has no effect."""

class TrainingRows(OptionGroup):
    gradient_accumulation: int
    accumulation_and_replication_reduction_type: ReductionType
    meanAccumulationAndReplicationReductionStrategy: MeanReductionStrategy
    auto_loss_scaling: bool
    convolution_dithering: bool
    def gradientAccumulation(self, gradient_accumulation: int) -> Self:
        """Micro-batches whose gradients make one weight update."""
    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> Self:
        """Averages (Mean) or adds (Sum) the gradients of micro-batches and replicas."""
    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: MeanReductionStrategy
    ) -> Self:
        """Divides gradients before they are added up (Running) or after (Post)."""
    def setAutomaticLossScaling(self, enabled: bool) -> Self:
        """Adapts the loss scale to the gradients during training."""
    def setConvolutionDithering(self, enabled: bool) -> Self:
        """Spreads convolutions over tiles."""

class JitRows(OptionGroup):
    def traceModel(self, trace_model: bool) -> Self:
        """Deprecated; True raises an error."""

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
        """Number of tiles of each IPU reserved for I/O."""
    def setActivationLocation(self, location: TensorLocationSettings) -> Self:
        """Sets the location of activations."""
    def setWeightLocation(self, location: TensorLocationSettings) -> Self:
        """Sets the location of weights."""
    def setOptimizerLocation(self, location: TensorLocationSettings) -> Self:
        """Sets the location of optimiser state."""
    def setAccumulatorLocation(self, location: TensorLocationSettings) -> Self:
        """Sets the location of gradient accumulators."""

class DistributedRows(OptionGroup):
    num_distributed_processes: int
    distributed_process_id: int
    ipuof_configs: dict[str, Any]
    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> Self:
        """Reads the number of processes and this process's number from these environment
        variables. Initially `OMPI_COMM_WORLD_SIZE` and `OMPI_COMM_WORLD_RANK` are read."""
    def configureProcessId(self, process_id: int, num_processes: int) -> Self:
        """Sets this process's number, from 0, and the number of processes."""
    def disable(self) -> Self:
        """Uses one process and ignores the environment."""

class EmulatorRows(OptionGroup):
    device_pool: tuple[int, int, str] | None
    check_indices: bool
    memory_limit: str
    def devicePool(self, ipus: int, version: int = 2, folder: str | PathLike[str] = "") -> Self:
        """Sets the number of IPUs in the pool, a power of two, and their version: 1, 2 or 21.
        Processes with the same folder share the pool. If None, POPTORCH_IPU_POOL sets it; else it
        has 64 IPUs of version 2."""
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
        """Round the number of reserved IPUs up to a power of two; otherwise another number is an
        error."""
    def replicationFactor(self, replication_factor: int) -> Self:
        """Set the number of data-parallel replicas of the model."""
    def inputReplicaGrouping(self, input_group_size: int, input_group_type: CommGroupType) -> Self:
        """Give the replicas of a group (of a size and a CommGroupType) the same input slice."""
    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Self:
        """Refuse to replicate models that write buffers. False: keep a separate buffer in each
        replica."""
    def outputMode(self, output_mode: OutputMode, output_return_period: int | None = None) -> Self:
        """Select the micro-batches whose outputs a call returns. EveryN takes a period."""
    def setExecutionStrategy(self, strategy: ExecutionStrategy | AutoStage) -> Self:
        """Select how a model runs on several IPUs."""
    def setAvailableMemoryProportion(
        self, available_memory_proportion: Mapping[str, float]
    ) -> Self:
        """Set the share of a tile's memory for temporary data of products, by IPU: {'IPU0': 0.5}.
        The default is 0.6."""
    def logDir(self, log_dir: str) -> Self:
        """Set the folder for `<model name>.log`, which records the result of each compilation.
        `.`: write no file."""
    def maxRepeatLogs(self, max_lines: int | None) -> Self:
        """Limit how often the Python layer logs the same message. None: no limit."""
    def modelName(self, name: str) -> Self:
        """Set the model's name in logs, reports and file names. If empty, it is `training` or
        `inference`."""
    def enableExecutableCaching(self, path: str | PathLike[str] | None) -> Self:
        """Store executables in this folder, so that equal models are compiled once. None: do not
        store them. POPTORCH_CACHE_DIR sets the initial value."""
    def useIpuModel(self, use_model: bool) -> Self:
        """Run on the IPU Model. This overrides POPTORCH_IPU_MODEL."""
    def connectionType(self, connection_type: ConnectionType) -> Self:
        """Select when the model attaches to a device."""
    def syncPattern(self, sync_pattern: SyncPattern) -> Self:
        """Select the IPUs that synchronise with each other."""
    def useIpuId(self, ipu_id: int) -> Self:
        """Select a device of the pool by number: single IPUs come first, then pairs, and so
        on."""
    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Self:
        """Compile for IPU version 1, 2 or 21 without attaching."""
    def randomSeed(self, random_seed: int) -> Self:
        """Seed the device's random number generators (None: 0), and those of torch."""
    def enableStableNorm(self, enabled: bool) -> Self:
        """Compute variances in two passes. The emulator always does."""
    def enableSyntheticData(self, enabled: object) -> Self:
        """Use random data instead of the inputs, drawn once. Transfers are not reported."""
    def logCycleCount(self, log_cycle_count: bool) -> Self:
        """Count the cycles of a run: see cycleCount()."""
    def enableProfiling(self, profile_dir: str | PathLike[str] | None = None) -> Self:
        """Write reports into the folder `<profile_dir>/<model name>`. None: the current
        folder."""
    def disableModuleNamescope(self) -> Self:
        """Omit the module path from the names of ops."""
    def updatableNamedBuffers(self, buffers: Iterable[str]) -> Self:
        """Name the buffers that copyNamedBuffersToDevice() uploads."""
    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Self:
        """Log unexpected optimiser attributes only at debug level."""
    def showCompilationProgressBar(self, show: bool = True) -> Self:
        """Show a progress bar during compilation."""
    def sourceLocationExcludes(self, excludes: Iterable[str]) -> Self:
        """Skip files whose path contains one of these texts in the source locations of ops."""
    def appendToLocationExcludes(self, *excludes: str) -> Self:
        """Add texts to sourceLocationExcludes."""
