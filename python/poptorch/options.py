"""poptorch.Options: every option is one row of a table here or, of groups, in option_groups.py."""

import copy
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from poptorch import enums
from poptorch._impl import core_options, device_pool, environment, option_files
from poptorch._impl.option_checks import (
    boolean,
    file_name,
    folder,
    member,
    number_in,
    positive_int,
    string,
    strings,
    whole,
)
from poptorch._impl.option_group import OptionGroup, draft_of, groups_of, state_of, take
from poptorch._impl.option_groups import (
    DistributedOptions,
    EmulatorOptions,
    JitOptions,
    PopartOptions,
    PrecisionOptions,
    Stored,
    TensorLocationOptions,
    TensorLocationSettings as TensorLocationSettings,
    TrainingOptions,
)
from poptorch._impl.option_rows import COMPILE, HOST, PENDING, RECORDED, RUN, Row
from poptorch._impl.phased_strategies import (
    ParallelPhasedExecution as ParallelPhasedExecution,
    Phase as Phase,
    SerialPhasedExecution as SerialPhasedExecution,
)
from poptorch._impl.strategies import (
    PipelinedExecution as PipelinedExecution,
    ShardedExecution as ShardedExecution,
    Stage as Stage,
    strategy_of,
)
from poptorch._logging import logger
from poptorch_core import Error

if TYPE_CHECKING:  # what the rows make of the class
    from poptorch._impl.option_types import OptionsRows
else:
    OptionsRows = OptionGroup


class ConfigFileError(Error):
    """A line of an options file that cannot be taken."""


def _set_output_mode(
    _options: OptionGroup, output_mode: enums.OutputMode, output_return_period: int | None = None
) -> Stored:
    mode, period = output_mode, output_return_period
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


def _assign_output_mode(_options: OptionGroup, attribute: str, value: Any) -> Stored:
    if attribute == "output_mode":
        return {attribute: number_in(enums.OutputMode, value)}
    return {attribute: positive_int(value)}


def _set_input_groups(
    options: "Options", input_group_size: int, input_group_type: enums.CommGroupType
) -> Stored:
    positive_int(input_group_size)
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


def _input_group_stride(options: "Options") -> int:
    orthogonal = options.input_group_type == enums.CommGroupType.Orthogonal
    return options.replication_factor // options.input_group_size if orthogonal else 1


def _assign_input_groups(options: "Options", attribute: str, value: Any) -> Stored:
    values = {"size": options.input_group_size, "type": options.input_group_type}
    values[attribute.removeprefix("input_group_")] = value
    kind = enums.CommGroupType(number_in(enums.CommGroupType, values["type"]))
    return {attribute: _set_input_groups(options, values["size"], kind)[attribute]}


def _check_replication(value: int) -> int:
    if positive_int(value) > 64:
        raise Error(
            f"Too many IPUs requested ({value}). Experiments that need more than 64 IPUs require "
            "distributed execution."
        )
    return value


def _check_memory_proportions(value: Mapping[str, float]) -> dict[str, float]:
    assert isinstance(value, Mapping), f"[options] expected {{'IPU0': 0.5}} but got {value!r}."
    for key, proportion in value.items():
        assert isinstance(key, str) and re.fullmatch(r"IPU\d+", key), (
            f"[options] expected a key such as 'IPU0' but got {key!r}."
        )
        is_number = isinstance(proportion, (int, float)) and not isinstance(proportion, bool)
        if not is_number or not 0 <= proportion <= 1:
            raise ValueError(
                f"[options] expected a share of an IPU's memory, from 0 to 1, for {key} but got "
                f"{proportion!r}."
            )
    return dict(value)


def _check_max_repeat_logs(value: int | None) -> int | None:
    if value is not None:
        positive_int(value)
    return value


def _check_ipu_version(value: int) -> int:
    assert not isinstance(value, bool) and value in (1, 2, 21), (
        f"[options] ipu_version is 1, 2 or 21, not {value!r}."
    )
    return value


def _set_offline_target(_options: OptionGroup, ipu_version: int = 2) -> Stored:
    return {
        "connection_type": int(enums.ConnectionType.Never),
        "offline_ipu_version": _check_ipu_version(ipu_version),
    }


def _set_random_seed(options: OptionGroup, random_seed: int) -> Stored:
    whole(0, 2**64 - 1)(random_seed)
    state_of(options).when_taken(lambda: torch.manual_seed(random_seed))
    return {"random_seed": random_seed}


def _assign_anchors(_options: OptionGroup, attribute: str, value: Any) -> Stored:
    for name, anchor in value.items():
        is_anchor = isinstance(name, str) and isinstance(anchor, (tuple, list)) and len(anchor) == 3
        if not is_anchor or not isinstance(anchor[0], str):
            raise ValueError(
                "[options] expected {name: (tensor, mode, period)} but got "
                f"{{{name!r}: {anchor!r}}}. Call anchorTensor()."
            )
        if anchor[1] is not None:
            number_in(enums.OutputMode, anchor[1])
        positive_int(anchor[2])
    return {attribute: {name: tuple(anchor) for name, anchor in value.items()}}


def _set_ipu_model(_options: OptionGroup, use_model: bool) -> Stored:
    state = "Enabled" if boolean(use_model) else "Disabled"
    logger.info(f"From the user configuration: Ipu model: {state}")
    return {"use_model": use_model}


def _append_location_excludes(options: "Options", *excludes: str) -> Stored:
    return {"source_location_excludes": [*options.source_location_excludes, *strings(excludes)]}


class Options(OptionsRows):
    """How a model is compiled and run. Setters return the object, so calls can be chained."""

    ROWS = (
        *core_options.rows_of(""),
        Row("replicationFactor", 1, _check_replication, COMPILE, "Data-parallel copies.",
            says="replication_factor"),
        Row("inputReplicaGrouping", None, None, COMPILE,
            "Replicas of a group (of a size and a CommGroupType) share one input slice.",
            defaults={"input_group_size": 1,
                      "input_group_type": int(enums.CommGroupType.Consecutive)},
            setter=_set_input_groups, assign=_assign_input_groups,
            says={"input_group_size": lambda options: options.input_group_size,
                  "input_group_stride": _input_group_stride}),
        Row("broadcastBuffers", True, boolean, COMPILE,
            "True refuses replicas for models with buffers; False keeps one buffer a replica.",
            argument_default=True),
        Row("outputMode", None, None, COMPILE,
            "Which micro-batches' outputs a call returns; EveryN takes a period.",
            defaults={"output_mode": int(enums.OutputMode.Default), "output_return_period": 1},
            setter=_set_output_mode, assign=_assign_output_mode,
            says={"output_mode": lambda options: enums.OutputMode(options.output_mode).name,
                  "output_period": lambda options: options.output_return_period}),
        Row("setExecutionStrategy", PipelinedExecution(), strategy_of, COMPILE,
            "How a model that is spread over several IPUs runs on them.",
            attribute="execution_strategy", argument="strategy",
            says={"strategy": lambda options: options.execution_strategy.NAME,
                  "liveness": lambda o: enums.Liveness(o.execution_strategy.liveness).name,
                  "separate_backward_phase":
                      lambda options: options.execution_strategy.separate_backward_phase}),
        Row("setAvailableMemoryProportion", {}, _check_memory_proportions, RECORDED,
            "Share of an IPU's memory for temporary data, by IPU: {'IPU0': 0.5}.",
            attribute="available_memory_proportion",
            argument="available_memory_proportion"),
        Row("logDir", ".", string, HOST,
            "Folder for `<model name>.log`, what each compilation made; `.`: none is written.",
            inside=("log_dir", lambda options: options.log_dir)),
        Row("maxRepeatLogs", 4, _check_max_repeat_logs, HOST,
            "How often one message of the Python layer may repeat; None: without limit.",
            argument="max_lines"),
        Row("modelName", "", file_name, HOST,
            "Name of the model in logs and reports, and of its files; empty: `training` or "
            "`inference`.", argument="name"),
        Row("enableExecutableCaching", environment.text("POPTORCH_CACHE_DIR") or None, folder,
            PENDING, "Folder that keeps executables; None: none are kept.", attribute="cache_path",
            argument="path", inside=("path", lambda options: options.cache_path or ".")),
        Row("useIpuModel", None, None, RUN, "Run on the IPU Model; wins over POPTORCH_IPU_MODEL.",
            defaults={"use_model": device_pool.uses_model()},
            setter=_set_ipu_model, assign=lambda o, _, value: _set_ipu_model(o, value)),
        Row("connectionType", int(enums.ConnectionType.Always), member(enums.ConnectionType), RUN,
            "When to attach to a device."),
        Row("syncPattern", int(enums.SyncPattern.Full), member(enums.SyncPattern), RECORDED,
            "Which IPUs synchronise."),
        Row("useIpuId", None, whole(0), RUN,
            "Which device of the pool to attach to: single IPUs come first, then pairs, and so on.",
            attribute="ipu_id", argument="ipu_id"),
        Row("useOfflineIpuTarget", None, None, RUN,
            "Compile for IPU version 1, 2 or 21 without attaching.",
            defaults={"offline_ipu_version": 0}, setter=_set_offline_target,
            assign=lambda _o, name, value: {name: _check_ipu_version(value)}),
        Row("anchorTensor", None, None, COMPILE,
            "A tensor to return by name besides the outputs: see getAnchoredTensor.",
            defaults={"anchored_tensors": {}}, assign=_assign_anchors),
        Row("randomSeed", None, None, COMPILE,
            "Seed of the device's generators (None: 0); also seeds torch's.",
            defaults={"random_seed": None}, setter=_set_random_seed,
            assign=lambda o, _, value: _set_random_seed(o, value), stored=int,
            says="random_seed"),
        Row("enableStableNorm", False, boolean, RECORDED,
            "Two-pass variances; ours always are.", attribute="stable_norm", argument="enabled"),
        Row("enableSyntheticData", False, boolean, RUN,
            "Random data in place of the inputs, drawn once.", attribute="synthetic_data",
            argument="enabled"),
        Row("logCycleCount", False, boolean, RUN, "Count cycles: see cycleCount()."),
        Row("enableProfiling", None, folder, PENDING,
            "Write a report of each model into this folder.", attribute="profile_dir",
            argument="profile_dir", argument_default=".",
            inside=("profile_dir", lambda options: options.profile_dir or ".")),
        Row("disableModuleNamescope", False, boolean, COMPILE,
            "Op names without module paths.", argument_default=True),
        Row("updatableNamedBuffers", [], strings, RUN,
            "Buffers that copyNamedBuffersToDevice() uploads.", argument="buffers"),
        Row("relaxOptimizerAttributesChecks", False, boolean, HOST,
            "Unexpected optimiser attributes are logged at debug level only.",
            argument="relax", argument_default=True),
        Row("showCompilationProgressBar", True, boolean, HOST,
            "Show a progress bar while compiling.", argument="show", argument_default=True),
        Row("sourceLocationExcludes", [], strings, COMPILE,
            "Files (by substring) that source locations of ops skip.", argument="excludes"),
        Row("appendToLocationExcludes", None, None, COMPILE,
            "Adds to sourceLocationExcludes.", defaults={}, setter=_append_location_excludes),
    )  # fmt: skip

    Precision: PrecisionOptions
    Training: TrainingOptions
    TensorLocations: TensorLocationOptions
    Jit: JitOptions
    Distributed: DistributedOptions
    Emulator: EmulatorOptions
    _Popart: PopartOptions

    def __init__(self) -> None:
        super().__init__(
            Precision=PrecisionOptions(),
            Training=TrainingOptions(),
            TensorLocations=TensorLocationOptions(),
            Jit=JitOptions(),
            Distributed=DistributedOptions(),
            Emulator=EmulatorOptions(),
            _Popart=PopartOptions(),
        )
        if given := environment.text("POPTORCH_DEFAULT_OPTIONS"):
            self._take_json(given, "[environment] POPTORCH_DEFAULT_OPTIONS")

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
        state_of(self).store({"anchored_tensors": anchors})

    def defaultOutputMode(self) -> bool:
        """Whether no output mode has been chosen."""
        return self.output_mode == enums.OutputMode.Default

    def loadFromFile(self, filepath: str) -> "Options":
        """Applies a file whose lines are setter calls without `options.`; `#` starts a comment.

        All of it or, after an error, nothing. Raises ConfigFileError, with the line, for one that
        is anything else, as files are never executed, and for values that the setter refuses.
        Folders in it are relative to those that the program has set, and stay inside.
        """
        draft = draft_of(self)
        with open(filepath, encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text or text.startswith("#"):
                    continue
                try:
                    option_files.apply_line(draft, text, self)
                except option_files.Refused as error:
                    raise ConfigFileError(
                        f"SyntaxError at line {number} of {filepath}: {error}\n> options."
                        + text.encode("utf-8", "backslashreplace").decode()
                    ) from None
                except Exception as error:
                    reason = error.message if isinstance(error, Error) else error
                    raise ConfigFileError(
                        f"Wrong value at line {number} of {filepath}: {reason}\n> options."
                        + text.encode("utf-8", "backslashreplace").decode()
                    ) from None
        take(self, draft)
        return self

    def from_json(self, string: str) -> "Options":
        """Applies {"Training.gradientAccumulation": 4, "outputMode": "OutputMode.All"}.

        A list is spread as the setter's arguments. All of it or, after an error, nothing. Raises
        ConfigFileError for unknown options and for values that the setter refuses. Folders in it
        are relative to those that the program has set, and stay inside.
        """
        return self._take_json(string, "[options] JSON options")

    def _take_json(self, text: str, where: str) -> "Options":
        draft = draft_of(self)
        try:
            option_files.apply_json(draft, text, self)
        except Exception as error:
            reason = error.message if isinstance(error, Error) else error
            raise ConfigFileError(f"{where}: {reason}: {text}") from None
        take(self, draft)
        return self

    def toDict(self) -> dict[str, Any]:
        """Every value by its dotted name. Raises poptorch.Error before an output mode is chosen."""
        if self.defaultOutputMode():
            raise Error("[options] toDict needs an output mode: call outputMode() first.")

        return {
            path + name: value
            for path, group in groups_of(self).items()
            for name, value in state_of(group).values.items()
        }

    def clone(self) -> "Options":
        """A copy that is not frozen."""
        return copy.deepcopy(self)
