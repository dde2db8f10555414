"""poptorch.Options: every option is one row of a table here or, of groups, in option_groups.py."""

import copy
import os

import torch
from poptorch import enums
from poptorch._impl import device_pool, option_files
from poptorch._impl.option_groups import (
    DistributedOptions,
    EmulatorOptions,
    JitOptions,
    PopartOptions,
    PrecisionOptions,
    TensorLocationOptions,
    TrainingOptions,
)
from poptorch._impl.option_groups import (
    TensorLocationSettings as TensorLocationSettings,
)
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
    strings,
)
from poptorch._impl.phased_strategies import (
    ParallelPhasedExecution as ParallelPhasedExecution,
)
from poptorch._impl.phased_strategies import Phase as Phase
from poptorch._impl.phased_strategies import (
    SerialPhasedExecution as SerialPhasedExecution,
)
from poptorch._impl.strategies import PipelinedExecution as PipelinedExecution
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
    return {"source_location_excludes": [*options.source_location_excludes, *strings(excludes)]}


class Options(OptionGroup):
    """How a model is compiled and run. Setters return the object, so calls can be chained."""

    ROWS = (
        Row("deviceIterations", 1, positive_int, COMPILE,
            "Iterations of the whole step that one call runs on the device."),
        Row("replicationFactor", 1, _check_replication, COMPILE, "Data-parallel copies."),
        Row("inputReplicaGrouping", None, None, COMPILE,
            "Replicas of a group (of a size and a CommGroupType) share one input slice.",
            defaults={"input_group_size": 1,
                      "input_group_type": int(enums.CommGroupType.Consecutive)},
            setter=_set_input_groups),
        Row("broadcastBuffers", True, boolean, COMPILE,
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
            "Reserve the next power of two of IPUs, where another number is an error.",
            argument_default=True),
        Row("setAvailableMemoryProportion", {}, _check_memory_proportions, RECORDED,
            "Share of an IPU's memory for temporary data, by IPU: {'IPU0': 0.5}.",
            attribute="available_memory_proportion"),
        Row("logDir", ".", string, HOST,
            "Folder for `<model name>.log`, what each compilation made; `.`: none is written."),
        Row("maxRepeatLogs", 4, _check_max_repeat_logs, HOST,
            "How often one message of the Python layer may repeat; None: without limit."),
        Row("modelName", "", string, HOST,
            "Name of the model in logs and reports; empty: `training` or `inference`."),
        Row("enableExecutableCaching", os.environ.get("POPTORCH_CACHE_DIR"), lambda v: v, PENDING,
            "Folder that keeps executables; None: none are kept.", attribute="cache_path"),
        Row("useIpuModel", None, None, RUN, "Run on the IPU Model; wins over POPTORCH_IPU_MODEL.",
            defaults={"use_model": device_pool.uses_model()},
            setter=_set_ipu_model),
        Row("connectionType", int(enums.ConnectionType.Always), member(enums.ConnectionType), RUN,
            "When to attach to a device."),
        Row("syncPattern", int(enums.SyncPattern.Full), member(enums.SyncPattern), RECORDED,
            "Which IPUs synchronise."),
        Row("useIpuId", None, integer, RUN,
            "Which device of the pool to attach to: single IPUs come first, then pairs, and so on.",
            attribute="ipu_id"),
        Row("useOfflineIpuTarget", None, None, RUN,
            "Compile for IPU version 1, 2 or 21 without attaching.",
            defaults={"offline_ipu_version": 0}, setter=_set_offline_target),
        Row("anchorTensor", None, None, COMPILE,
            "A tensor to return by name besides the outputs: see getAnchoredTensor.",
            defaults={"anchored_tensors": {}}),
        Row("randomSeed", None, None, COMPILE,
            "Seed of the device's generators (None: 0); also seeds torch's.",
            defaults={"random_seed": None}, setter=_set_random_seed),
        Row("enableStableNorm", False, boolean, RECORDED,
            "Two-pass variances; ours always are.", attribute="stable_norm"),
        Row("enableSyntheticData", False, boolean, RUN,
            "Random data in place of the inputs, drawn once.", attribute="synthetic_data"),
        Row("logCycleCount", False, boolean, RUN, "Count cycles: see cycleCount()."),
        Row("enableProfiling", None, lambda v: v, PENDING,
            "Write a report of each model into this folder.", attribute="profile_dir",
            argument_default="."),
        Row("disableModuleNamescope", False, lambda _v: True, COMPILE,
            "Op names without module paths.", argument_default=True),
        Row("updatableNamedBuffers", [], strings, RUN,
            "Buffers that copyNamedBuffersToDevice() uploads."),
        Row("relaxOptimizerAttributesChecks", False, boolean, HOST,
            "Unexpected optimiser attributes are logged at debug level only.",
            argument_default=True),
        Row("showCompilationProgressBar", True, boolean, HOST,
            "Show a progress bar while compiling.", argument_default=True),
        Row("sourceLocationExcludes", [], strings, COMPILE,
            "Files (by substring) that source locations of ops skip."),
        Row("appendToLocationExcludes", None, None, COMPILE,
            "Adds to sourceLocationExcludes.", defaults={}, setter=_append_location_excludes),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(
            Precision=PrecisionOptions(),
            Training=TrainingOptions(),
            TensorLocations=TensorLocationOptions(),
            Jit=JitOptions(),
            Distributed=DistributedOptions(),
            Emulator=EmulatorOptions(),
            _Popart=PopartOptions(),
        )
        if os.environ.get("POPTORCH_DEFAULT_OPTIONS"):
            self.from_json(os.environ["POPTORCH_DEFAULT_OPTIONS"])

    def anchorTensor(
        self,
        short_name: str,
        long_name: str,
        output_mode: enums.OutputMode | None = None,
        output_return_period: int | None = 1,
    ) -> None:
        """Returns a tensor besides the model's outputs: `getAnchoredTensor(short_name)`.

        long_name: of the tensor, see getTensorNames(); `*` and `?` match several.
        output_mode: None is the model's own; the period is that of EveryN.
        """
        mode = None
        if output_mode is not None:
            mode = _set_output_mode(self, output_mode, output_return_period)["output_mode"]
        period = output_return_period if output_mode == enums.OutputMode.EveryN else 1
        anchors = {**self.anchored_tensors, short_name: (long_name, mode, period)}
        self._store({"anchored_tensors": anchors})

    def defaultOutputMode(self) -> bool:
        """Whether no output mode has been chosen."""
        return self.output_mode == enums.OutputMode.Default

    def loadFromFile(self, filepath: str) -> "Options":
        """Applies a file whose lines are setter calls without `options.`; `#` starts a comment.

        Raises ConfigFileError for a line that is anything else: files are never executed.
        """
        with open(filepath, encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text or text.startswith("#"):
                    continue
                try:
                    option_files.apply_line(self, text)
                except option_files.Refused as error:
                    raise ConfigFileError(
                        f"SyntaxError at line {number} of {filepath}: {error}\n> options."
                        + text.encode("utf-8", "backslashreplace").decode()
                    ) from None
                except Exception as error:
                    error.add_note(f"at line {number} of {filepath}")
                    raise
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
