"""poptorch.Options: every option is one row of a table here or, of groups, in option_groups.py."""

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from poptorch import enums
from poptorch._impl.devices import ipu_pool
from poptorch._impl.options import core_table, environment, parsing, popart_names, setters
from poptorch._impl.options.checks import (
    boolean,
    file_name,
    folder,
    member,
    positive_int,
    string,
    strings,
    truth,
    whole,
)
from poptorch._impl.options.definitions import (
    DistributedOptions,
    EmulatorOptions,
    JitOptions,
    PopartOptions,
    PrecisionOptions,
    TensorLocationOptions,
    TensorLocationSettings as TensorLocationSettings,
    TrainingOptions,
)
from poptorch._impl.options.group_class import OptionGroup, draft_of, take
from poptorch._impl.options.rows import COMPILE, HOST, RECORDED, RUN, Row
from poptorch._impl.options.stored_values import Session, add_values, recorded_as, state_of
from poptorch._impl.placement.phased_strategies import (
    ParallelPhasedExecution as ParallelPhasedExecution,
    Phase as Phase,
    SerialPhasedExecution as SerialPhasedExecution,
)
from poptorch._impl.placement.strategies import (
    ExecutionStrategy,
    PipelinedExecution as PipelinedExecution,
    ShardedExecution as ShardedExecution,
    Stage as Stage,
    strategy_in,
    strategy_of,
)
from poptorch._logging import logger_of
from poptorch_core import Error

if TYPE_CHECKING:  # what the rows make of the class
    from poptorch._impl.options.types import OptionsRows
else:
    OptionsRows = OptionGroup

logger = logger_of(__name__)


# As programs call these classes; launchers derive from the second.
_IExecutionStrategy = ExecutionStrategy
_DistributedOptions = DistributedOptions
_PrecisionOptions = PrecisionOptions
_TrainingOptions = TrainingOptions
_TensorLocationOptions = TensorLocationOptions
_JitOptions = JitOptions
_PopartOptions = PopartOptions


class ConfigFileError(Error):
    """A line of an options file that cannot be taken."""


class Options(OptionsRows):
    """How a model is compiled and run. Setters return the object, so calls can be chained."""

    ROWS = (
        *core_table.rows_of(""),
        Row("replicationFactor", 1, positive_int, COMPILE, "Data-parallel copies.",
            says="replication_factor"),
        Row("inputReplicaGrouping", None, None, COMPILE,
            "Replicas of a group (of a size and a CommGroupType) share one input slice.",
            defaults={"input_group_size": 1, "input_cgt": enums.CommGroupType.Consecutive},
            setter=setters.set_input_groups, assign=setters.assign_input_groups,
            says={"input_group_size": lambda options: options.input_group_size,
                  "input_group_stride": setters.input_group_stride}),
        Row("broadcastBuffers", True, boolean, COMPILE,
            "True refuses replicas for models that write buffers; False keeps one buffer a "
            "replica.", argument_default=True),
        Row("outputMode", None, None, COMPILE,
            "Which micro-batches' outputs a call returns; EveryN takes a period.",
            defaults={"output_mode": int(enums.OutputMode.Default), "output_return_period": 1},
            setter=setters.set_output_mode, assign=setters.assign_output_mode,
            says={"output_mode": lambda options: enums.OutputMode(options.output_mode).name,
                  "output_period": lambda options: options.output_return_period}),
        Row("setExecutionStrategy", PipelinedExecution(), strategy_of, COMPILE,
            "How a model that is spread over several IPUs runs on them.",
            attribute="_execution_strategy", argument="strategy",
            says={"strategy": lambda options: strategy_in(options).NAME,
                  "liveness": lambda o: enums.Liveness(strategy_in(o).liveness).name,
                  "separate_backward_phase":
                      lambda options: strategy_in(options).separate_backward_phase}),
        Row("setAvailableMemoryProportion", {}, setters.check_memory_proportions, RECORDED,
            "Share of an IPU's memory for temporary data, by IPU: {'IPU0': 0.5}.",
            attribute="available_memory_proportion",
            argument="available_memory_proportion"),
        Row("logDir", ".", string, HOST,
            "Folder for `<model name>.log`, what each compilation made; `.`: none is written.",
            inside=("log_dir", lambda options: options.log_dir)),
        Row("maxRepeatLogs", 4, setters.check_max_repeat_logs, HOST,
            "How often one message of the Python layer may repeat; None: without limit.",
            argument="max_lines"),
        Row("modelName", "", file_name, HOST,
            "Name of the model in logs and reports, and of its files; empty: `training` or "
            "`inference`.", argument="name", created=True),
        Row("enableExecutableCaching", None, folder, HOST,
            "Folder that keeps executables, so that equal models are compiled once; None: none are "
            "kept. At first POPTORCH_CACHE_DIR.", attribute="cache_path", argument="path",
            session=Session(setters.write_cache, setters.read_cache),
            inside=("path", lambda options: options.cache_path or "."),
            says={"cache_path": setters.cache_path}),
        Row("useIpuModel", None, None, RUN, "Run on the IPU Model; wins over POPTORCH_IPU_MODEL.",
            defaults={"use_model": ipu_pool.uses_model()}, created=True,
            setter=setters.set_ipu_model,
            assign=lambda o, _, value: setters.set_ipu_model(o, value)),
        Row("connectionType", int(enums.ConnectionType.Always), member(enums.ConnectionType), RUN,
            "When to attach to a device."),
        Row("syncPattern", int(enums.SyncPattern.Full), member(enums.SyncPattern), RECORDED,
            "Which IPUs synchronise."),
        Row("useIpuId", None, whole(0), RUN,
            "Which device of the pool to attach to: single IPUs come first, then pairs, and so on.",
            attribute="ipu_id", argument="ipu_id", created=True),
        Row("useOfflineIpuTarget", None, None, RUN,
            "Compile for IPU version 1, 2 or 21 without attaching.",
            defaults={"ipu_version": 0}, created=True, setter=setters.set_offline_target,
            assign=lambda _o, name, value: {name: setters.check_ipu_version(value)}),
        Row("anchorTensor", None, None, COMPILE,
            "A tensor to return by name besides the outputs: see getAnchoredTensor.",
            defaults={"anchored_tensors": {}}, assign=setters.assign_anchors),
        Row("randomSeed", None, None, COMPILE,
            "Seed of the device's generators (None: 0); also seeds torch's.",
            defaults={"random_seed": None}, setter=setters.set_random_seed,
            assign=lambda o, _, value: setters.set_random_seed(o, value), stored=int, created=True,
            says="random_seed"),
        Row("enableStableNorm", False, boolean, RECORDED,
            "Two-pass variances; ours always are.", attribute="stable_norm", argument="enabled",
            session=recorded_as("enableStableNorm")),
        Row("enableSyntheticData", False, truth, RUN,
            "Random data in place of the inputs, drawn once; no transfers are told of.",
            attribute="synthetic_data", argument="enabled",
            # PopART's SyntheticDataMode: RandomNormal, Off.
            session=Session(lambda enabled: {"syntheticDataMode": 2 if enabled else 0},
                            lambda session: bool(session["syntheticDataMode"]))),
        Row("logCycleCount", False, boolean, RUN, "Count cycles: see cycleCount().",
            session=recorded_as("instrumentWithHardwareCycleCounter")),
        Row("enableProfiling", None, folder, HOST,
            "Write reports into the folder `<profile_dir>/<model name>`; None is the current one.",
            attribute="profile_dir", argument="profile_dir", argument_default=None,
            session=Session(setters.write_profile,
                            lambda session: session["engineOptions"]["autoReport.directory"]),
            inside=("profile_dir", lambda options: options.profile_dir or ".")),
        Row("disableModuleNamescope", None, None, COMPILE, "Op names without module paths.",
            defaults={"_module_namescope_enabled": True}, setter=setters.disable_module_namescope,
            assign=lambda _o, name, value: {name: boolean(value)}),
        Row("updatableNamedBuffers", [], strings, RUN,
            "Buffers that copyNamedBuffersToDevice() uploads.", argument="buffers",
            session=recorded_as("updatableNamedBuffers", list)),
        Row("relaxOptimizerAttributesChecks", False, boolean, HOST,
            "Unexpected optimiser attributes are logged at debug level only.",
            attribute="_relax_optimizer_checks", argument="relax", argument_default=True),
        Row("showCompilationProgressBar", True, boolean, HOST,
            "Show a progress bar while compiling.", attribute="_show_compilation_progress_bar",
            argument="show", argument_default=True),
        Row("sourceLocationExcludes", [], strings, COMPILE,
            "Files (by substring) that source locations of ops skip.",
            attribute="_source_location_excludes", argument="excludes"),
        Row("appendToLocationExcludes", None, None, COMPILE,
            "Adds to sourceLocationExcludes.", defaults={},
            setter=setters.append_location_excludes),
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
        if cache := environment.text("POPTORCH_CACHE_DIR"):
            logger.info(f"POPTORCH_CACHE_DIR is set: setting cache path to {cache}")
            self.enableExecutableCaching(cache)
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
        mode = int(enums.OutputMode.Default)
        if output_mode is not None:
            mode = setters.set_output_mode(self, output_mode, output_return_period)["output_mode"]
        period = output_return_period if output_mode == enums.OutputMode.EveryN else 1
        anchor = [long_name, output_mode is None, mode, period]
        anchors = {**self.anchored_tensors, short_name: anchor}
        state_of(self).store({"anchored_tensors": anchors})

    @property
    def _popart(self) -> PopartOptions:
        """_Popart, as some programs spell it."""
        return self._Popart

    @property
    def _progress_bar(self) -> Callable[[int, int], object] | None:
        """What compilations call with (steps done, steps in all) in the place of their own bar."""
        return state_of(self).values.get("_progress_bar")

    @_progress_bar.setter
    def _progress_bar(self, bar: Callable[[int, int], object] | None) -> None:
        state_of(self).store({"_progress_bar": bar})

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
                    parsing.apply_line(draft, text, self)
                except parsing.Refused as error:
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
            parsing.apply_json(draft, text, self)
        except Exception as error:
            reason = error.message if isinstance(error, Error) else error
            raise ConfigFileError(f"{where}: {reason}: {text}") from None
        take(self, draft)
        return self

    def toDict(self) -> dict[str, Any]:
        """What the backend is told, by name: of the strategy, session options, and the values of
        the options, Training, Distributed and TensorLocations.

        Raises AssertionError before an output mode is chosen, and for a name that is there twice.
        """
        if self.defaultOutputMode():
            raise AssertionError(
                "An output mode must be picked before serialisation: call outputMode()."
            )
        said = self._execution_strategy.toDict()
        groups = (self.Training, self.Distributed, self.TensorLocations)
        for part in (self._Popart.options, super().toDict(), *(g.toDict() for g in groups)):
            add_values(said, part)
        return copy.deepcopy(said)

    def clone(self) -> "Options":
        """A copy that is not frozen."""
        return copy.deepcopy(self)


def validate(said: Mapping[str, Any]) -> None:
    """Raises poptorch.Error for what the backend does not know: names, and types of values.

    said: as Options.toDict() gives it.
    """
    groups = (Options, TrainingOptions, DistributedOptions, TensorLocationOptions)
    rows = [row for group in groups for row in group.ROWS if row.session is None]
    popart_names.validate(said, (name for row in rows for name in row.values()))
