"""poptorch.Options: each option is one row of a table, here or in the definitions of its group."""

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from poptorch import enums
from poptorch._impl.devices import ipu_pool
from poptorch._impl.options import core_table, environment, nested, parsing, popart_names, setters
from poptorch._impl.options.checks import (
    boolean,
    file_name,
    folder,
    member,
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

if TYPE_CHECKING:  # a class with the setters that the rows make
    from poptorch._impl.options.types import OptionsRows
else:
    OptionsRows = OptionGroup

logger = logger_of(__name__)


# Programs use these names; launchers derive from the second class.
_IExecutionStrategy = ExecutionStrategy
_DistributedOptions = DistributedOptions
_PrecisionOptions = PrecisionOptions
_TrainingOptions = TrainingOptions
_TensorLocationOptions = TensorLocationOptions
_JitOptions = JitOptions
_PopartOptions = PopartOptions


class ConfigFileError(Error):
    """An error in a line of an options file, or in JSON options."""


class Options(OptionsRows):
    """Sets how a model is compiled and run. Setters return the object, so calls can be chained."""

    ROWS = (
        *core_table.rows_of(""),
        Row("inputReplicaGrouping", None, None, COMPILE,
            "Give the replicas of a group (of a size and a CommGroupType) the same input slice.",
            defaults={"input_group_size": 1, "input_cgt": enums.CommGroupType.Consecutive},
            setter=setters.set_input_groups, assign=setters.assign_input_groups,
            says={"input_group_size": lambda options: options.input_group_size,
                  "input_group_stride": setters.input_group_stride}),
        Row("broadcastBuffers", True, boolean, COMPILE,
            "Refuse to replicate models that write buffers. False: keep a separate buffer in each "
            "replica.", argument_default=True),
        Row("outputMode", None, None, COMPILE,
            "Select the micro-batches whose outputs a call returns. EveryN takes a period.",
            defaults={"output_mode": int(enums.OutputMode.Default), "output_return_period": 1},
            setter=setters.set_output_mode, assign=setters.assign_output_mode,
            says={"output_mode": lambda options: enums.OutputMode(options.output_mode).name,
                  "output_period": lambda options: options.output_return_period}),
        Row("setExecutionStrategy", PipelinedExecution(), strategy_of, COMPILE,
            "Select how a model runs on several IPUs.",
            attribute="_execution_strategy", argument="strategy",
            says={"strategy": lambda options: strategy_in(options).NAME,
                  "liveness": lambda o: enums.Liveness(strategy_in(o).liveness).name,
                  "separate_backward_phase":
                      lambda options: strategy_in(options).separate_backward_phase}),
        Row("setAvailableMemoryProportion", {}, setters.check_memory_proportions, COMPILE,
            "Set the share of a tile's memory for temporary data of products, by IPU: "
            "{'IPU0': 0.5}. The default is 0.6.",
            attribute="available_memory_proportion",
            argument="available_memory_proportion",
            says={"memory_proportions":
                      lambda o: setters.said_proportions(o.available_memory_proportion)}),
        Row("logDir", ".", string, HOST,
            "Set the folder for `<model name>.log`, which records the result of each compilation. "
            "`.`: write no file.", inside=("log_dir", lambda options: options.log_dir)),
        Row("maxRepeatLogs", 4, setters.check_max_repeat_logs, HOST,
            "Limit how often the Python layer logs the same message. None: no limit.",
            argument="max_lines"),
        Row("modelName", "", file_name, HOST,
            "Set the model's name in logs, reports and file names. If empty, it is `training` or "
            "`inference`.", argument="name", created=True),
        Row("enableExecutableCaching", None, folder, HOST,
            "Store executables in this folder, so that equal models are compiled once. None: do "
            "not store them. POPTORCH_CACHE_DIR sets the initial value.",
            attribute="cache_path", argument="path",
            session=Session(setters.write_cache, setters.read_cache),
            inside=("path", lambda options: options.cache_path or "."),
            says={"cache_path": setters.cache_path}),
        Row("useIpuModel", None, None, RUN,
            "Run on the IPU Model. This overrides POPTORCH_IPU_MODEL.",
            defaults={"use_model": ipu_pool.uses_model()}, created=True,
            setter=setters.set_ipu_model,
            assign=lambda o, _, value: setters.set_ipu_model(o, value)),
        Row("connectionType", int(enums.ConnectionType.Always), member(enums.ConnectionType), RUN,
            "Select when the model attaches to a device."),
        Row("syncPattern", int(enums.SyncPattern.Full), member(enums.SyncPattern), COMPILE,
            "Select the IPUs that wait for each other. SinglePipeline: a pipeline's IPUs do not "
            "wait for transfers of others with the host.",
            says={"separate_host_sync":
                      lambda o: o.sync_pattern == enums.SyncPattern.SinglePipeline}),
        Row("useIpuId", None, whole(0), RUN,
            "Select a device of the pool by number: single IPUs come first, then pairs, and so on.",
            attribute="ipu_id", argument="ipu_id", created=True),
        Row("useOfflineIpuTarget", None, None, RUN,
            "Compile for IPU version 1, 2 or 21 without attaching.",
            defaults={"ipu_version": 0}, created=True, setter=setters.set_offline_target,
            assign=lambda _o, name, value: {name: setters.check_ipu_version(value)}),
        Row("anchorTensor", None, None, COMPILE,
            "Return a tensor, by its name, in addition to the outputs: see getAnchoredTensor.",
            defaults={"anchored_tensors": {}}, assign=setters.assign_anchors),
        Row("randomSeed", None, None, COMPILE,
            "Seed the device's random number generators (None: 0), and those of torch.",
            defaults={"random_seed": None}, setter=setters.set_random_seed,
            assign=lambda o, _, value: setters.set_random_seed(o, value), stored=int, created=True,
            says="random_seed"),
        Row("enableStableNorm", False, boolean, RECORDED,
            "Compute variances in two passes. The emulator always does.",
            attribute="stable_norm", argument="enabled",
            session=recorded_as("enableStableNorm")),
        Row("enableSyntheticData", False, truth, RUN,
            "Use random data instead of the inputs, drawn once. Transfers are not reported.",
            attribute="synthetic_data", argument="enabled",
            # PopART's SyntheticDataMode: RandomNormal, Off.
            session=Session(lambda enabled: {"syntheticDataMode": 2 if enabled else 0},
                            lambda session: bool(session["syntheticDataMode"]))),
        Row("logCycleCount", False, boolean, RUN, "Count the cycles of a run: see cycleCount().",
            session=recorded_as("instrumentWithHardwareCycleCounter")),
        Row("enableProfiling", None, folder, HOST,
            "Write reports into the folder `<profile_dir>/<model name>`. None: the current folder.",
            attribute="profile_dir", argument="profile_dir", argument_default=None,
            session=Session(setters.write_profile,
                            lambda session: session["engineOptions"]["autoReport.directory"]),
            inside=("profile_dir", lambda options: options.profile_dir or ".")),
        Row("disableModuleNamescope", None, None, COMPILE,
            "Omit the module path from the names of ops.",
            defaults={"_module_namescope_enabled": True}, setter=setters.disable_module_namescope,
            assign=lambda _o, name, value: {name: boolean(value)}),
        Row("updatableNamedBuffers", [], strings, RUN,
            "Name the buffers that copyNamedBuffersToDevice() uploads.", argument="buffers",
            session=recorded_as("updatableNamedBuffers", list)),
        Row("relaxOptimizerAttributesChecks", False, boolean, HOST,
            "Log unexpected optimiser attributes only at debug level.",
            attribute="_relax_optimizer_checks", argument="relax", argument_default=True),
        Row("showCompilationProgressBar", True, boolean, HOST,
            "Show a progress bar during compilation.", attribute="_show_compilation_progress_bar",
            argument="show", argument_default=True),
        Row("sourceLocationExcludes", [], strings, COMPILE,
            "Skip files whose path contains one of these texts in the source locations of ops.",
            attribute="_source_location_excludes", argument="excludes"),
        Row("appendToLocationExcludes", None, None, COMPILE,
            "Add texts to sourceLocationExcludes.", defaults={},
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
            # The variable belongs to the user, whose folders may be anywhere.
            self._take_json(given, "[environment] POPTORCH_DEFAULT_OPTIONS", None)

    def anchorTensor(
        self,
        short_name: str,
        long_name: str,
        output_mode: enums.OutputMode | None = None,
        output_return_period: int | None = 1,
    ) -> None:
        """Keeps a tensor of the model for `getAnchoredTensor(short_name)`.

        Args:
            short_name: The name for getAnchoredTensor().
            long_name: The name of the tensor, as in getTensorNames(). `*` and `?` match several.
            output_mode: The tensor's output mode. None: that of the model.
            output_return_period: The period of EveryN.
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
        """_Popart under a name that some programs use."""
        return self._Popart

    @property
    def _progress_bar(self) -> Callable[[int, int], object] | None:
        """The function that a compilation calls with (steps done, all steps) for progress."""
        return state_of(self).values.get("_progress_bar")

    @_progress_bar.setter
    def _progress_bar(self, bar: Callable[[int, int], object] | None) -> None:
        state_of(self).store({"_progress_bar": bar})

    def defaultOutputMode(self) -> bool:
        """Returns whether no output mode has been chosen."""
        return self.output_mode == enums.OutputMode.Default

    def loadFromFile(self, filepath: str) -> "Options":
        """Applies a file whose lines are setter calls without `options.`; `#` starts a comment.

        The file is parsed, never executed. After an error, no option is changed. Folders in the
        file are relative to those that the program has set, and stay inside.

        Args:
            filepath: The file.

        Returns:
            The options.

        Raises:
            ConfigFileError: A line is not a setter call, or the setter refuses its value. The
                message contains the line.
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
        """Applies options: {"Training.gradientAccumulation": 4, "outputMode": "OutputMode.All"}.

        A list holds the arguments of the setter. After an error, no option is changed. Folders are
        relative to those that the program has set, and stay inside.

        Args:
            string: A JSON object of options by name.

        Returns:
            The options.

        Raises:
            ConfigFileError: An option is unknown, or the setter refuses its value.
        """
        return self._take_json(string, "[options] JSON options", self)

    def _take_json(self, text: str, where: str, owner: "Options | None") -> "Options":
        """Applies JSON options; their folders must be inside those of `owner`, if it is given."""
        draft = draft_of(self)
        try:
            parsing.apply_json(draft, text, owner)
        except Exception as error:
            reason = error.message if isinstance(error, Error) else error
            raise ConfigFileError(f"{where}: {reason}: {text}") from None
        take(self, draft)
        return self

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Options":
        """Returns new options with the values of a nested dict, as to_dict() returns it.

        Args:
            values: Options by attribute, and dicts of options by group. Members of enumerations
                and dtypes may be texts: {"output_mode": "OutputMode.All"}.

        Returns:
            The options. Those that `values` leaves out have their defaults.

        Raises:
            ConfigFileError: An option is unknown, or its check refuses the value.

        Example:
            >>> Options.from_dict({"device_iterations": 4, "Training": {"auto_loss_scaling": True}})
        """
        made = cls()
        draft = draft_of(made)
        try:
            nested.apply(draft, values)
        except parsing.Refused as error:
            raise ConfigFileError(f"[options] from_dict: {error}") from None
        take(made, draft)
        return made

    def to_dict(self, only_set: bool = False) -> dict[str, Any]:
        """Returns the options as a nested dict of plain values, for JSON, YAML or from_dict().

        Args:
            only_set: Leaves out options that have their defaults.

        Returns:
            Options by attribute, and dicts of options by group.

        Raises:
            ValueError: The execution strategy is of a class of the user.
        """
        return nested.to_dict(self, only_set)

    def toDict(self) -> dict[str, Any]:
        """Returns the options for the backend, by name.

        Returns:
            The options of the strategy, the session options, and the values of the options,
            Training, Distributed and TensorLocations.

        Raises:
            AssertionError: No output mode was chosen, or a name occurs twice.
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
        """Returns a copy that is not frozen."""
        return copy.deepcopy(self)


def validate(said: Mapping[str, Any]) -> None:
    """Checks that the backend knows the names of options and the types of their values.

    Args:
        said: The result of Options.toDict().

    Raises:
        poptorch.Error: A name is unknown, or a value has a wrong type.
    """
    groups = (Options, TrainingOptions, DistributedOptions, TensorLocationOptions)
    rows = [row for group in groups for row in group.ROWS if row.session is None]
    popart_names.validate(said, (name for row in rows for name in row.values()))
