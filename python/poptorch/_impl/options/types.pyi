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
        """Round float16 results up or down at random, in proportion.

        Default: False. Takes effect at: compilation.

        Args:
            enabled: True to round at random, False to the nearest.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def enableFloatingPointExceptions(self, enabled: bool) -> Self:
        """Stop with an error at invalid operations, division by zero and overflow; slow.

        Default: False. Takes effect at: compilation.

        Args:
            enabled: True to stop at the first such value, False to continue with it.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setPartialsType(self, dtype: dtype) -> Self:
        """Sets the dtype of partial sums of matmuls and convolutions in float16. Half partials
        round the sums after every 16 terms, and take fewer modelled cycles.

        Default: torch.float32. Takes effect at: compilation.

        Args:
            dtype: torch.float or torch.half.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def halfFloatCasting(self, half_float_casting: HalfFloatCastingBehavior) -> Self:
        """Deprecated; has no effect.

        Default: none. Takes effect at: recorded only: the emulator's values do not depend on
        it.

        Args:
            half_float_casting: Ignored.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def runningStatisticsAlwaysFloat(self, value: bool) -> Self:
        """Deprecated; has no effect.

        Default: none. Takes effect at: recorded only: the emulator's values do not depend on
        it.

        Args:
            value: Ignored; True or False.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """

class TrainingRows(OptionGroup):
    gradient_accumulation: int
    accumulation_and_replication_reduction_type: ReductionType
    meanAccumulationAndReplicationReductionStrategy: MeanReductionStrategy
    auto_loss_scaling: bool
    convolution_dithering: bool
    def gradientAccumulation(self, gradient_accumulation: int) -> Self:
        """Micro-batches whose gradients make one weight update.

        Default: 1. Takes effect at: compilation.

        Args:
            gradient_accumulation: Micro-batches in each weight update. Allowed: 1 to
                1073741824.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> Self:
        """Averages (Mean) or adds (Sum) the gradients of micro-batches and replicas.

        Default: Mean. Takes effect at: compilation.

        Args:
            reduction_type: ReductionType.Mean or ReductionType.Sum.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: MeanReductionStrategy
    ) -> Self:
        """Divides gradients before they are added up (Running) or after (Post).

        Default: Post. Takes effect at: compilation.

        Args:
            mean_reduction_strategy: MeanReductionStrategy.Post or
                MeanReductionStrategy.Running. PostAndLoss is deprecated and has the effect of
                Post.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setAutomaticLossScaling(self, enabled: bool) -> Self:
        """Adapts the loss scale to the gradients during training.

        Default: False. Takes effect at: compilation.

        Args:
            enabled: True to adapt the scale, False to keep the given one.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setConvolutionDithering(self, enabled: bool) -> Self:
        """Spreads convolutions over tiles.

        Default: False. Takes effect at: recorded only: the emulator's values do not depend on
        it.

        Args:
            enabled: Recorded; True or False.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """

class JitRows(OptionGroup):
    def traceModel(self, trace_model: bool) -> Self:
        """Deprecated; True raises an error.

        Default: none. Takes effect at: recorded only: the emulator's values do not depend on
        it.

        Args:
            trace_model: False; True raises an error.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """

class TensorLocationSettingsRows(OptionGroup):
    onChip: int | None
    def useOnChipStorage(self, use: bool | None = True) -> Self:
        """On chip (True), in Streaming Memory (False) or by default (None).

        Default: None. Takes effect at: compilation.

        Args:
            use: True for the memory of the IPU, False for Streaming Memory, None for the
                default.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def minElementsForOffChip(self, min_elements: int) -> Self:
        """Tensors of fewer elements always stay on chip.

        Default: 2. Takes effect at: compilation.

        Args:
            min_elements: Elements of the smallest tensor that may leave the chip. Allowed: 0 to
                9223372036854775806.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def useReplicatedTensorSharding(self, use: bool = True) -> Self:
        """Shard over replicas.

        Default: 0. Takes effect at: compilation.

        Args:
            use: True to keep a share in each replica, False to keep the tensor whole.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> Self:
        """Tensors of fewer elements are never sharded over replicas.

        Default: 8192. Takes effect at: compilation.

        Args:
            min_elements: Elements of the smallest tensor that may be sharded. Allowed: 0 to
                9223372036854775806.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def useIOTilesToLoad(self, use: bool = True) -> Self:
        """Load through the IO tiles, if there are any.

        Default: 0. Takes effect at: compilation.

        Args:
            use: True to transfer through the IO tiles, False through all tiles.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def useIOTilesToStore(self, use: bool = True) -> Self:
        """Store through the IO tiles, if there are any.

        Default: 0. Takes effect at: compilation.

        Args:
            use: True to transfer through the IO tiles, False through all tiles.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """

class TensorLocationRows(OptionGroup):
    location_activation: dict[str, int]
    location_weight: dict[str, int]
    location_optimizer: dict[str, int]
    location_accumulator: dict[str, int]
    def numIOTiles(self, num_tiles: int) -> Self:
        """Number of tiles of each IPU reserved for I/O.

        Default: 0. Takes effect at: compilation.

        Args:
            num_tiles: Tiles of each IPU that transfer data and do not compute. Allowed: an even
                number between 32 and 192.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setActivationLocation(self, location: TensorLocationSettings) -> Self:
        """Sets the location of activations.

        Default: None. Takes effect at: compilation.

        Args:
            location: Settings for tensors of this kind; they are copied.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setWeightLocation(self, location: TensorLocationSettings) -> Self:
        """Sets the location of weights.

        Default: None. Takes effect at: compilation.

        Args:
            location: Settings for tensors of this kind; they are copied.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setOptimizerLocation(self, location: TensorLocationSettings) -> Self:
        """Sets the location of optimiser state.

        Default: None. Takes effect at: compilation.

        Args:
            location: Settings for tensors of this kind; they are copied.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setAccumulatorLocation(self, location: TensorLocationSettings) -> Self:
        """Sets the location of gradient accumulators.

        Default: None. Takes effect at: compilation.

        Args:
            location: Settings for tensors of this kind; they are copied.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """

class DistributedRows(OptionGroup):
    num_distributed_processes: int
    distributed_process_id: int
    ipuof_configs: dict[str, Any]
    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> Self:
        """Reads the number of processes and this process's number from these environment
        variables. Initially `OMPI_COMM_WORLD_SIZE` and `OMPI_COMM_WORLD_RANK` are read.

        Default: none. Takes effect at: host.

        Args:
            var_num_processes: The variable with the number of processes, 1 or more. If it is
                not set, there is one process.
            var_process_id: The variable with this process's number, from 0. If it is not set,
                the number is 0.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def configureProcessId(self, process_id: int, num_processes: int) -> Self:
        """Sets this process's number, from 0, and the number of processes.

        Default: 1, 0, {}. Takes effect at: host.

        Args:
            process_id: This process's number, from 0 to num_processes - 1.
            num_processes: The number of processes, 1 or more.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def disable(self) -> Self:
        """Uses one process and ignores the environment.

        Default: none. Takes effect at: host.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """

class EmulatorRows(OptionGroup):
    device_pool: tuple[int, int, str] | None
    check_indices: bool
    memory_limit: str
    def devicePool(self, ipus: int, version: int = 2, folder: str | PathLike[str] = "") -> Self:
        """Sets the number of IPUs in the pool, a power of two, and their version: 1, 2 or 21.
        Processes with the same folder share the pool. If None, POPTORCH_IPU_POOL sets it; else
        it has 64 IPUs of version 2.

        Default: None. Takes effect at: run time.

        Args:
            ipus: The number of IPUs in the pool, a power of two.
            version: The version of the IPUs: 1, 2 or 21.
            folder: The folder of the locks by which processes share the pool. If empty, the
                pool belongs to this process.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def checkIndices(self, enabled: bool) -> Self:
        """Stop with an error where an index of gather, scatter, one_hot or the like is out of
        range, which otherwise reads zeros and writes nothing.

        Default: False. Takes effect at: compilation.

        Args:
            enabled: True to stop with an error, False to continue.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def memoryLimit(self, mode: str) -> Self:
        """What happens when a program does not fit into an IPU: 'warn', 'error' or 'off'. Empty:
        POPTORCH_MEMORY_LIMIT, else 'warn'.

        Default: ''. Takes effect at: compilation.

        Args:
            mode: The reaction to a program that does not fit. Allowed: 'warn', 'error' or
                'off', or '' for the default.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """

class PopartRows(OptionGroup):
    options: dict[str, Any]
    def set(self, key: str, value: Any) -> Self:  # type: ignore[override]
        """Records one session option.

        Default: {'instrumentWithHardwareCycleCounter': False, 'rearrangeAnchorsOnHost': False}.
        Takes effect at: recorded only: the emulator's values do not depend on it.

        Args:
            key: The name of a session option.
            value: The value, of the type that the option has in PopART.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setEngineOptions(self, values: Mapping[str, Any]) -> Self:
        """Records engine options.

        Default: none. Takes effect at: recorded only: the emulator's values do not depend on
        it.

        Args:
            values: Texts by the names of engine options.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setPatterns(self, patterns: Mapping[str, bool], level: int = 2) -> Self:
        """Records patterns and their level.

        Default: none. Takes effect at: recorded only: the emulator's values do not depend on
        it.

        Args:
            patterns: Whether to use each pattern, by its name.
            level: The level that gives the other patterns their values: 0 (none) to 3 (all).

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """

class OptionsRows(OptionGroup):
    device_iterations: int
    replication_factor: int
    auto_round_num_ipus: bool
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
        """Iterations of the whole step that one call runs on the device.

        Default: 1. Takes effect at: compilation.

        Args:
            device_iterations: Iterations of the step in each call. Allowed: 1 to 1073741824.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def replicationFactor(self, replication_factor: int) -> Self:
        """Number of copies of the model, each on separate IPUs.

        Default: 1. Takes effect at: compilation.

        Args:
            replication_factor: The number of replicas in this process. Each needs the IPUs of a
                whole model. Allowed: 1 to 32768.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Self:
        """Round the number of reserved IPUs up to a power of two; otherwise another number is an
        error.

        Default: False. Takes effect at: compilation.

        Args:
            auto_round_num_ipus: True to reserve more IPUs than the model needs, False to raise
                an error for a number that is not a power of two.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def inputReplicaGrouping(self, input_group_size: int, input_group_type: CommGroupType) -> Self:
        """Give the replicas of a group (of a size and a CommGroupType) the same input slice.

        Default: 1, Consecutive. Takes effect at: compilation.

        Args:
            input_group_size: The number of replicas in a group. It divides the replication
                factor, which is set before.
            input_group_type: The replicas that form a group: CommGroupType.Consecutive,
                Orthogonal, All or NoGrouping.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Self:
        """Refuse to replicate models that write buffers. False: keep a separate buffer in each
        replica.

        Default: True. Takes effect at: compilation.

        Args:
            broadcast_buffers: True to refuse such models, False to keep a buffer in each
                replica.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def outputMode(self, output_mode: OutputMode, output_return_period: int | None = None) -> Self:
        """Select the micro-batches whose outputs a call returns. EveryN takes a period.

        Default: 4, 1. Takes effect at: compilation.

        Args:
            output_mode: OutputMode.Final, All, Sum, EveryN or Default: Final for training, All
                for inference.
            output_return_period: For EveryN: the number of micro-batches, 1 or more, of which
                the last one's outputs are returned. Other modes ignore it.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setExecutionStrategy(self, strategy: ExecutionStrategy | AutoStage) -> Self:
        """Select how a model runs on several IPUs.

        Default: PipelinedExecution(0). Takes effect at: compilation.

        Args:
            strategy: PipelinedExecution, ShardedExecution, ParallelPhasedExecution,
                SerialPhasedExecution, or an AutoStage, which makes a pipeline.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def setAvailableMemoryProportion(
        self, available_memory_proportion: Mapping[str, float]
    ) -> Self:
        """Set the share of a tile's memory for temporary data of products, by IPU: {'IPU0': 0.5}.
        The default is 0.6.

        Default: {}. Takes effect at: compilation.

        Args:
            available_memory_proportion: Shares from 0 to 1 by IPU, such as {'IPU0': 0.5}.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def logDir(self, log_dir: str) -> Self:
        """Set the folder for `<model name>.log`, which records the result of each compilation.
        `.`: write no file.

        Default: '.'. Takes effect at: host.

        Args:
            log_dir: A path, absolute or relative to the working directory. '.' writes no file.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def maxRepeatLogs(self, max_lines: int | None) -> Self:
        """Limit how often the Python layer logs the same message. None: no limit.

        Default: 4. Takes effect at: host.

        Args:
            max_lines: How often the same message is logged, 1 or more; None for no limit.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def modelName(self, name: str) -> Self:
        """Set the model's name in logs, reports and file names. If empty, it is `training` or
        `inference`.

        Default: ''. Takes effect at: host.

        Args:
            name: A name of up to 200 bytes, without slashes and backslashes.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def enableExecutableCaching(self, path: str | PathLike[str] | None) -> Self:
        """Store executables in this folder, so that equal models are compiled once. None: do not
        store them. POPTORCH_CACHE_DIR sets the initial value.

        Default: None. Takes effect at: host.

        Args:
            path: A path, absolute or relative to the working directory. None stores nothing.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def useIpuModel(self, use_model: bool) -> Self:
        """Run on the IPU Model. This overrides POPTORCH_IPU_MODEL.

        Default: False. Takes effect at: run time.

        Args:
            use_model: True for the IPU Model, False for the pool of IPUs.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def connectionType(self, connection_type: ConnectionType) -> Self:
        """Select when the model attaches to a device.

        Default: 0. Takes effect at: run time.

        Args:
            connection_type: ConnectionType.Always (before the compilation), OnDemand (after it)
                or Never (compile only).

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def syncPattern(self, sync_pattern: SyncPattern) -> Self:
        """Select the IPUs that wait for each other. SinglePipeline: a pipeline's IPUs do not wait
        for transfers of others with the host.

        Default: 0. Takes effect at: compilation.

        Args:
            sync_pattern: SyncPattern.Full, SinglePipeline, or ReplicaAndLadder (as Full).

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def useIpuId(self, ipu_id: int) -> Self:
        """Select a device of the pool by number: single IPUs come first, then pairs, and so on.

        Default: None. Takes effect at: run time.

        Args:
            ipu_id: The number of the device in the pool. Allowed: 0 to 2147483647.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Self:
        """Compile for IPU version 1, 2 or 21 without attaching.

        Default: 0. Takes effect at: run time.

        Args:
            ipu_version: The version of the IPU: 1, 2 or 21.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def randomSeed(self, random_seed: int) -> Self:
        """Seed the device's random number generators (None: 0), and those of torch.

        Default: None. Takes effect at: compilation.

        Args:
            random_seed: The seed, from 0 to 2**64 - 1.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def enableStableNorm(self, enabled: bool) -> Self:
        """Compute variances in two passes. The emulator always does.

        Default: False. Takes effect at: recorded only: the emulator's values do not depend on
        it.

        Args:
            enabled: Recorded; True or False.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def enableSyntheticData(self, enabled: object) -> Self:
        """Use random data instead of the inputs, drawn once. Transfers are not reported.

        Default: False. Takes effect at: run time.

        Args:
            enabled: True to use random data, False to transfer the inputs.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def logCycleCount(self, log_cycle_count: bool) -> Self:
        """Count the cycles of a run: see cycleCount().

        Default: False. Takes effect at: run time.

        Args:
            log_cycle_count: True to count cycles and log them, False to count none.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def enableProfiling(self, profile_dir: str | PathLike[str] | None = None) -> Self:
        """Write reports into the folder `<profile_dir>/<model name>`. None: the current folder.

        Default: None. Takes effect at: host.

        Args:
            profile_dir: A path, absolute or relative to the working directory. None is the
                working directory.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def disableModuleNamescope(self) -> Self:
        """Omit the module path from the names of ops.

        Default: True. Takes effect at: compilation.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def updatableNamedBuffers(self, buffers: Iterable[str]) -> Self:
        """Name the buffers that copyNamedBuffersToDevice() uploads.

        Default: []. Takes effect at: run time.

        Args:
            buffers: Names of buffers, as in named_buffers().

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Self:
        """Log unexpected optimiser attributes only at debug level.

        Default: False. Takes effect at: host.

        Args:
            relax: True to log them at debug level, False to warn about them.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def showCompilationProgressBar(self, show: bool = True) -> Self:
        """Show a progress bar during compilation.

        Default: True. Takes effect at: host.

        Args:
            show: True to show the bar, False to hide it.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def sourceLocationExcludes(self, excludes: Iterable[str]) -> Self:
        """Skip files whose path contains one of these texts in the source locations of ops.

        Default: []. Takes effect at: compilation.

        Args:
            excludes: Texts that are parts of paths. They replace the current ones.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
    def appendToLocationExcludes(self, *excludes: str) -> Self:
        """Add texts to sourceLocationExcludes.

        Default: none. Takes effect at: compilation.

        Args:
            excludes: Texts that are parts of paths.

        Returns:
            The options, so that calls can be chained.

        Raises:
            AttributeError: The options are frozen: a wrapper uses them.
            AssertionError: A value is of another type, or is not allowed.
            poptorch.Error: A number is not in the range of the option.
        """
