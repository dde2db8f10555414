"""poptorch.Options and its groups: every option is one row of a table in this file."""

import copy
import os

import torch
from poptorch import enums
from poptorch._impl import option_files
from poptorch._impl.option_rows import (
    COMPILE,
    HOST,
    PENDING,
    RECORDED,
    RUN,
    OptionGroup,
    Row,
    boolean,
    integer,
    member,
    positive_int,
    string,
)
from poptorch._impl.strategies import ParallelPhasedExecution as ParallelPhasedExecution
from poptorch._impl.strategies import Phase as Phase
from poptorch._impl.strategies import PipelinedExecution as PipelinedExecution
from poptorch._impl.strategies import SerialPhasedExecution as SerialPhasedExecution
from poptorch._impl.strategies import ShardedExecution as ShardedExecution
from poptorch._impl.strategies import Stage as Stage
from poptorch._impl.strategies import strategy_of
from poptorch._logging import logger
from poptorch_core import Error


class ConfigFileError(Error):
    """A line of an options file that cannot be taken."""


def _set_output_mode(_options, mode, period=None):
    assert isinstance(mode, enums.OutputMode), (
        f"[options] outputMode expects a poptorch.OutputMode but got {mode!r}."
    )
    if mode == enums.OutputMode.EveryN:
        if not isinstance(period, int) or period < 1:
            raise Error(
                f"[options] OutputMode.EveryN needs a positive period but got {period!r}. "
                "Pass outputMode(poptorch.OutputMode.EveryN, N)."
            )
    elif period is not None:
        logger.info(f"The period {period} is ignored: {mode.name} has none")
    return {"output_mode": int(mode), "output_return_period": period or 1}


def _set_input_groups(options, input_group_size, input_group_type):
    replicas = options.replication_factor
    if input_group_type == enums.CommGroupType.All:
        raise ValueError("[options] CommGroupType.All is not supported for input groups.")
    if input_group_type == enums.CommGroupType.NoGrouping:
        input_group_size, input_group_type = 1, enums.CommGroupType.Consecutive
    if input_group_size < 1 or input_group_size > replicas or replicas % input_group_size:
        raise ValueError(
            f"[options] input_group_size {input_group_size} must divide the replication factor "
            f"{replicas}. Call replicationFactor() first."
        )
    return {"input_group_size": input_group_size, "input_group_type": int(input_group_type)}


def _check_replication(value):
    positive_int(value)
    if value > 64:
        raise Error(
            f"Too many IPUs requested ({value}). Experiments that need more than 64 IPUs require "
            "distributed execution."
        )
    return value


def _check_memory_proportions(value):
    for key in value:
        assert key.startswith("IPU"), f"[options] expected a key such as 'IPU0' but got {key!r}."
    return dict(value)


def _check_max_repeat_logs(value):
    if value is not None:
        positive_int(value)
    return value


def _set_offline_target(_options, ipu_version=2):
    assert ipu_version in (1, 2, 21), f"[options] ipu_version is 1, 2 or 21, not {ipu_version!r}."
    return {
        "connection_type": int(enums.ConnectionType.Never),
        "offline_ipu_version": ipu_version,
    }


def _set_random_seed(_options, random_seed):
    assert isinstance(random_seed, int), f"[options] expected an integer, not {random_seed!r}."
    torch.manual_seed(random_seed)
    return {"random_seed": random_seed}


def _set_ipu_model(_options, use_model):
    state = "Enabled" if boolean(use_model) else "Disabled"
    logger.info(f"From the user configuration: Ipu model: {state}")
    return {"use_model": use_model}


def _append_location_excludes(options, *excludes):
    return {"source_location_excludes": [*options.source_location_excludes, *excludes]}


def _check_partials_type(value):
    if value not in (torch.float, torch.half):
        raise ValueError(f"[options] the partials type is torch.float or torch.half, not {value}.")
    return value


def _ignore_deprecated(name):
    def setter(_options, _value):
        logger.warning(f"Precision.{name} is deprecated and has no effect")
        return {}

    return setter


def _check_statistics_flag(_options, value):
    boolean(value)
    return _ignore_deprecated("runningStatisticsAlwaysFloat")(_options, value)


def _check_reduction(value):
    if value not in (enums.ReductionType.Sum, enums.ReductionType.Mean) or isinstance(value, bool):
        raise ValueError(
            f"[options] gradients are reduced by ReductionType.Sum or ReductionType.Mean, "
            f"not {value!r}."
        )
    return enums.ReductionType(value)


def _check_trace_model(_options, value):
    if value:
        raise ValueError(
            "[options] Jit.traceModel(True) is not supported: models are captured at "
            "the dispatcher. Remove the call."
        )
    logger.warning("Jit.traceModel is deprecated: models are always captured at the dispatcher")
    return {}


def _check_io_tiles(value):
    assert isinstance(value, int) and 32 <= value <= 192 and value % 2 == 0, (
        "numIOTiles must be an even number between 32 and 192."
    )
    return value


def _check_location(value):
    assert isinstance(value, TensorLocationSettings), (
        f"[options] expected TensorLocationSettings but got {value!r}."
    )
    return value


class _PrecisionOptions(OptionGroup):
    """Options of half precision: `opts.Precision`."""

    ROWS = (
        Row("enableFloatingPointExceptions", False, boolean, PENDING,
            "Stop with an error at invalid operations, division by zero and overflow."),
        Row("enableStochasticRounding", False, boolean, PENDING,
            "Round float16 results up or down at random, in proportion."),
        Row("setPartialsType", torch.float, _check_partials_type, RECORDED,
            "Type of the partial sums of matmul and convolution.", attribute="partials_type"),
        Row("halfFloatCasting", None, None, RECORDED, "Deprecated.", defaults={},
            setter=_ignore_deprecated("halfFloatCasting")),
        Row("runningStatisticsAlwaysFloat", None, None, RECORDED, "Deprecated.", defaults={},
            setter=_check_statistics_flag),
    )  # fmt: skip


class _TrainingOptions(OptionGroup):
    """Options of training: `opts.Training`."""

    ROWS = (
        Row("gradientAccumulation", 1, positive_int, COMPILE,
            "Micro-batches whose gradients make one weight update."),
        Row("accumulationAndReplicationReductionType", enums.ReductionType.Mean, _check_reduction,
            COMPILE, "Whether gradients of micro-batches and replicas are averaged or added."),
        Row("setMeanAccumulationAndReplicationReductionStrategy", enums.MeanReductionStrategy.Post,
            lambda value: enums.MeanReductionStrategy(value), RECORDED,
            "Where the division of the mean takes place.",
            attribute="meanAccumulationAndReplicationReductionStrategy"),
        Row("setAutomaticLossScaling", False, boolean, PENDING,
            "Adapt the loss scale to the gradients while training.",
            attribute="auto_loss_scaling"),
        Row("setConvolutionDithering", False, boolean, RECORDED,
            "Spread convolutions over tiles.", attribute="convolution_dithering"),
    )  # fmt: skip


class _JitOptions(OptionGroup):
    """Options of the JIT tracer, which no longer exists: `opts.Jit`."""

    ROWS = (
        Row("traceModel", None, None, RECORDED, "Deprecated; True is refused.", defaults={},
            setter=_check_trace_model),
    )  # fmt: skip


class TensorLocationSettings(OptionGroup):
    """Where a kind of tensor lives. Values never depend on it; memory accounts do."""

    ROWS = (
        Row("minElementsForOffChip", 2, integer, RECORDED,
            "Smaller tensors always stay on chip."),
        Row("minElementsForReplicatedTensorSharding", 8192, integer, RECORDED,
            "Smaller tensors are never sharded over replicas."),
        Row("useOnChipStorage", None, lambda v: v, RECORDED,
            "On chip (True), in Streaming Memory (False) or by default (None).",
            argument_default=True),
        Row("useReplicatedTensorSharding", False, boolean, RECORDED,
            "Shard over replicas.", argument_default=True),
        Row("useIOTilesToLoad", False, boolean, RECORDED,
            "Load through the IO tiles.", argument_default=True),
        Row("useIOTilesToStore", False, boolean, RECORDED,
            "Store through the IO tiles.", argument_default=True),
    )  # fmt: skip


class _TensorLocationOptions(OptionGroup):
    """Locations of kinds of tensors: `opts.TensorLocations`."""

    ROWS = (
        Row("numIOTiles", 0, _check_io_tiles, RECORDED, "Tiles set apart for I/O."),
        Row("setActivationLocation", None, _check_location, RECORDED, "Location of activations.",
            attribute="location_activation"),
        Row("setWeightLocation", None, _check_location, RECORDED, "Location of weights.",
            attribute="location_weight"),
        Row("setOptimizerLocation", None, _check_location, RECORDED,
            "Location of optimiser state.", attribute="location_optimizer"),
        Row("setAccumulatorLocation", None, _check_location, RECORDED,
            "Location of gradient accumulators.", attribute="location_accumulator"),
    )  # fmt: skip


class _DistributedOptions(OptionGroup):
    """Several processes without PopRun: `opts.Distributed`."""

    ROWS = (
        Row("setEnvVarNames", None, None, PENDING,
            "Variables that hold the number of processes and this one's number.",
            defaults={"num_processes_variable": "OMPI_COMM_WORLD_SIZE",
                      "process_id_variable": "OMPI_COMM_WORLD_RANK"},
            setter=lambda _o, var_num_processes, var_process_id: {
                "num_processes_variable": var_num_processes,
                "process_id_variable": var_process_id, "process_id": None, "num_processes": None}),
        Row("configureProcessId", None, None, PENDING, "This process's number, and how many.",
            defaults={"process_id": None, "num_processes": None},
            setter=lambda _o, process_id, num_processes: {
                "process_id": process_id, "num_processes": num_processes}),
        Row("disable", None, None, HOST, "One process, whatever the environment says.",
            defaults={}, setter=lambda _o: {"process_id": 0, "num_processes": 1}),
    )  # fmt: skip

    @property
    def processId(self) -> int:
        """The number of this process, from 0."""
        if self.process_id is not None:
            return self.process_id
        return int(os.environ.get(self.process_id_variable, "0"))

    @property
    def numProcesses(self) -> int:
        """How many processes there are."""
        if self.num_processes is not None:
            return self.num_processes
        return int(os.environ.get(self.num_processes_variable, "1"))


class _PopartOptions(OptionGroup):
    """Recorded session options for experts: `opts._Popart`."""

    ROWS = (
        Row("set", None, None, RECORDED, "Records one session option.", defaults={"options": {}},
            setter=lambda o, key, value: {"options": {**o.options, key: value}}),
        Row("setEngineOptions", None, None, RECORDED, "Records engine options.", defaults={},
            setter=lambda o, values: {"options": {**o.options, "engineOptions": dict(values)}}),
        Row("setPatterns", None, None, RECORDED, "Records patterns and their level.", defaults={},
            setter=lambda o, patterns, level=2: {
                "options": {**o.options, "patterns": dict(patterns), "patternsLevel": level}}),
    )  # fmt: skip


class Options(OptionGroup):
    """How a model is compiled and run. Setters return the object, so calls can be chained."""

    ROWS = (
        Row("deviceIterations", 1, positive_int, COMPILE,
            "Iterations of the whole step that one call runs on the device."),
        Row("replicationFactor", 1, _check_replication, COMPILE, "Data-parallel copies."),
        Row("inputReplicaGrouping", None, None, PENDING,
            "Replicas of a group (of a size and a CommGroupType) share one input slice.",
            defaults={"input_group_size": 1,
                      "input_group_type": int(enums.CommGroupType.Consecutive)},
            setter=_set_input_groups),
        Row("broadcastBuffers", True, boolean, PENDING,
            "True refuses replicas for models with buffers; False keeps one buffer a replica.",
            argument_default=True),
        Row("outputMode", None, None, COMPILE,
            "Which micro-batches' outputs a call returns; EveryN takes a period.",
            defaults={"output_mode": int(enums.OutputMode.Default), "output_return_period": 1},
            setter=_set_output_mode),
        Row("setExecutionStrategy", PipelinedExecution(), strategy_of, COMPILE,
            "How a model that is spread over several IPUs runs on them.",
            attribute="execution_strategy"),
        Row("autoRoundNumIPUs", False, boolean, COMPILE,
            "Reserve the next power of two of IPUs.", argument_default=True),
        Row("setAvailableMemoryProportion", {}, _check_memory_proportions, RECORDED,
            "Share of an IPU's memory for temporary data, by IPU: {'IPU0': 0.5}.",
            attribute="available_memory_proportion"),
        Row("logDir", ".", string, HOST, "Folder of log files."),
        Row("maxRepeatLogs", 4, _check_max_repeat_logs, HOST,
            "How often one message may repeat; None: without limit."),
        Row("modelName", "", string, HOST, "Name of the model in reports and profiles."),
        Row("enableExecutableCaching", os.environ.get("POPTORCH_CACHE_DIR"), lambda v: v, PENDING,
            "Folder that keeps executables; None: none are kept.", attribute="cache_path"),
        Row("useIpuModel", None, None, RUN, "Run on the IPU Model; wins over POPTORCH_IPU_MODEL.",
            defaults={"use_model": os.environ.get("POPTORCH_IPU_MODEL", "0") not in ("0", "")},
            setter=_set_ipu_model),
        Row("connectionType", int(enums.ConnectionType.Always), member(enums.ConnectionType), RUN,
            "When to attach to a device."),
        Row("syncPattern", int(enums.SyncPattern.Full), member(enums.SyncPattern), RECORDED,
            "Which IPUs synchronise."),
        Row("useIpuId", None, integer, PENDING, "Which device to attach to.", attribute="ipu_id"),
        Row("useOfflineIpuTarget", None, None, RUN,
            "Compile for IPU version 1, 2 or 21 without attaching.",
            defaults={"offline_ipu_version": 0}, setter=_set_offline_target),
        Row("randomSeed", None, None, COMPILE,
            "Seed of the device's generators; also seeds torch's.",
            defaults={"random_seed": 0}, setter=_set_random_seed),
        Row("enableStableNorm", False, boolean, RECORDED,
            "Two-pass variances; ours always are.", attribute="stable_norm"),
        Row("enableSyntheticData", False, boolean, PENDING,
            "No host I/O: random data on the device.", attribute="synthetic_data"),
        Row("logCycleCount", False, boolean, RUN, "Count cycles: see cycleCount()."),
        Row("enableProfiling", None, lambda v: v, PENDING,
            "Write a report of each model into this folder.", attribute="profile_dir",
            argument_default="."),
        Row("disableModuleNamescope", False, lambda _v: True, COMPILE,
            "Op names without module paths.", argument_default=True),
        Row("updatableNamedBuffers", [], list, RUN,
            "Buffers that copyNamedBuffersToDevice() uploads."),
        Row("relaxOptimizerAttributesChecks", False, boolean, HOST,
            "Unexpected optimiser attributes are logged at debug level only.",
            argument_default=True),
        Row("showCompilationProgressBar", True, boolean, HOST,
            "Show a progress bar while compiling.", argument_default=True),
        Row("sourceLocationExcludes", [], list, COMPILE,
            "Files (by substring) that source locations of ops skip."),
        Row("appendToLocationExcludes", None, None, COMPILE,
            "Adds to sourceLocationExcludes.", defaults={}, setter=_append_location_excludes),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(
            Precision=_PrecisionOptions(),
            Training=_TrainingOptions(),
            TensorLocations=_TensorLocationOptions(),
            Jit=_JitOptions(),
            Distributed=_DistributedOptions(),
            _Popart=_PopartOptions(),
        )
        if os.environ.get("POPTORCH_DEFAULT_OPTIONS"):
            self.from_json(os.environ["POPTORCH_DEFAULT_OPTIONS"])

    def defaultOutputMode(self) -> bool:
        """Whether no output mode has been chosen."""
        return self.output_mode == enums.OutputMode.Default

    def loadFromFile(self, filepath: str) -> "Options":
        """Applies a file whose lines are setter calls without `options.`; `#` starts a comment.

        Raises ConfigFileError for a line that is anything else: files are never executed.
        """
        with open(filepath, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text or text.startswith("#"):
                    continue
                try:
                    option_files.apply_line(self, text)
                except option_files.Refused as error:
                    raise ConfigFileError(
                        f"SyntaxError at line {number} of {filepath}: {error}\n> options.{text}"
                    ) from None
        return self

    def from_json(self, text: str) -> "Options":
        """Applies {"Training.gradientAccumulation": 4, "outputMode": "OutputMode.All"}.

        A list is spread as the setter's arguments. Raises ConfigFileError for unknown options.
        """
        try:
            option_files.apply_json(self, text)
        except (option_files.Refused, ValueError) as error:
            raise ConfigFileError(f"[options] JSON options: {error}: {text}") from None
        return self

    def toDict(self) -> dict:
        """Every value by its dotted name. Raises poptorch.Error before an output mode is chosen."""
        if self.defaultOutputMode():
            raise Error("[options] toDict needs an output mode: call outputMode() first.")

        def collect(group, prefix):
            found = {prefix + name: value for name, value in group._values.items()}
            for name, subgroup in group._subgroups().items():
                found.update(collect(subgroup, f"{prefix}{name}."))
            return found

        return collect(self, "")

    def clone(self) -> "Options":
        """A copy that is not frozen."""
        return copy.deepcopy(self)
