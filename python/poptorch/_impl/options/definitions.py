"""The groups of poptorch.Options: a class for each group, a row for each option."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from poptorch import enums
from poptorch._impl.devices.ipu_pool import Pool
from poptorch._impl.files import private_folders
from poptorch._impl.options import core_table, environment
from poptorch._impl.options.checks import boolean, whole
from poptorch._impl.options.group_class import OptionGroup, store
from poptorch._impl.options.rows import COMPILE, HOST, RECORDED, RUN, Row
from poptorch._impl.options.stored_values import Session, recorded_as, state_of
from poptorch._logging import logger_of
from poptorch_core import Error

if TYPE_CHECKING:  # the attributes and setters that each class gets from its rows
    from poptorch._impl.options.types import (
        DistributedRows,
        EmulatorRows,
        JitRows,
        PopartRows,
        PrecisionRows,
        TensorLocationRows,
        TensorLocationSettingsRows,
        TrainingRows,
    )
else:
    DistributedRows = EmulatorRows = JitRows = PopartRows = PrecisionRows = OptionGroup
    TensorLocationRows = TensorLocationSettingsRows = TrainingRows = OptionGroup

logger = logger_of(__name__)

Stored: TypeAlias = dict[str, Any]  # by attribute


def _check_partials_type(value: torch.dtype) -> torch.dtype:
    if value not in (torch.float, torch.half):
        raise ValueError(f"[options] the partials type is torch.float or torch.half, not {value}.")
    return value


def _ignore_casting(
    _options: OptionGroup, half_float_casting: enums.HalfFloatCastingBehavior
) -> Stored:
    logger.warning("Precision.halfFloatCasting is deprecated and has no effect")
    return {}


def _ignore_statistics_flag(_options: OptionGroup, value: bool) -> Stored:
    boolean(value)
    logger.warning("Precision.runningStatisticsAlwaysFloat is deprecated and has no effect")
    return {}


def _check_reduction(value: enums.ReductionType) -> enums.ReductionType:
    if value not in (enums.ReductionType.Sum, enums.ReductionType.Mean) or isinstance(value, bool):
        raise ValueError(
            f"[options] gradients are reduced by ReductionType.Sum or ReductionType.Mean, "
            f"not {value!r}."
        )
    return enums.ReductionType(value)


def _check_mean_strategy(value: enums.MeanReductionStrategy) -> enums.MeanReductionStrategy:
    strategies = enums.MeanReductionStrategy
    if isinstance(value, bool) or value not in list(strategies):
        raise ValueError(f"[options] expected a MeanReductionStrategy but got {value!r}.")
    if value == strategies.PostAndLoss:
        logger.warning("MeanReductionStrategy.PostAndLoss is deprecated: Post has the same values")
    return strategies(value)


def _check_trace_model(_options: OptionGroup, trace_model: bool) -> Stored:
    if trace_model:
        raise ValueError(
            "[options] Jit.traceModel(True) is not supported: models are captured at "
            "the dispatcher. Remove the call."
        )
    logger.warning("Jit.traceModel is deprecated: models are always captured at the dispatcher")
    return {}


_PARTIALS = {torch.float: "float", torch.half: "half"}


def _write_partials(dtype: torch.dtype) -> dict[str, Any]:
    name = _PARTIALS[dtype]
    return {"partialsTypeMatMuls": name, "convolutionOptions": {"partialsType": name}}


def _read_partials(session: dict[str, Any]) -> torch.dtype:
    return torch.half if session["partialsTypeMatMuls"] == "half" else torch.float


def _of_precision(_option: object, setter: str) -> dict[str, Any]:
    names = {"enableFloatingPointExceptions": "enableFloatingPointChecks"}
    return {"session": recorded_as(names.get(setter, setter))}


class PrecisionOptions(PrecisionRows):
    """Options of half precision: `opts.Precision`."""

    ROWS = (
        *core_table.rows_of("Precision", kept=_of_precision),
        Row("setPartialsType", torch.float, _check_partials_type, COMPILE,
            "Sets the dtype of partial sums of matmuls and convolutions in float16. Half partials "
            "round the sums after every 16 terms, and take fewer modelled cycles.",
            attribute="partials_type", argument="dtype",
            says={"half_partials": lambda precision: precision.partials_type == torch.half},
            session=Session(_write_partials, _read_partials)),
        Row("halfFloatCasting", None, None, RECORDED, "Deprecated; has no effect.", defaults={},
            setter=_ignore_casting),
        Row("runningStatisticsAlwaysFloat", None, None, RECORDED, "Deprecated; has no effect.",
            defaults={}, setter=_ignore_statistics_flag),
    )  # fmt: skip


class TrainingOptions(TrainingRows):
    """Options of training: `opts.Training`."""

    ROWS = (
        *core_table.rows_of("Training"),
        Row("accumulationAndReplicationReductionType", enums.ReductionType.Mean, _check_reduction,
            COMPILE, "Averages (Mean) or adds (Sum) the gradients of micro-batches and replicas.",
            argument="reduction_type",
            says={"mean_reduction": lambda training: enums.ReductionType.Mean
                  == training.accumulation_and_replication_reduction_type}),
        Row("setMeanAccumulationAndReplicationReductionStrategy", enums.MeanReductionStrategy.Post,
            _check_mean_strategy, COMPILE,
            "Divides gradients before they are added up (Running) or after (Post).",
            attribute="meanAccumulationAndReplicationReductionStrategy",
            argument="mean_reduction_strategy"),
        Row("setAutomaticLossScaling", False, boolean, COMPILE,
            "Adapts the loss scale to the gradients during training.",
            attribute="auto_loss_scaling", argument="enabled",
            session=recorded_as("automaticLossScalingSettings.enabled")),
        Row("setConvolutionDithering", False, boolean, RECORDED,
            "Spreads convolutions over tiles.", attribute="convolution_dithering",
            argument="enabled",
            session=Session(
                lambda enabled: {"convolutionOptions": {"enableConvDithering": enabled}},
                lambda session: bool(session["convolutionOptions"]["enableConvDithering"]))),
    )  # fmt: skip


def set_running_mean(training: OptionGroup) -> None:
    """Sets the strategy that float16 accumulators need, without the setter's warnings."""
    running = enums.MeanReductionStrategy.Running
    store(training, {"meanAccumulationAndReplicationReductionStrategy": running})


class JitOptions(JitRows):
    """Options of PopTorch's former JIT tracer: `opts.Jit`."""

    ROWS = (
        Row("traceModel", None, None, RECORDED, "Deprecated; True raises an error.", defaults={},
            setter=_check_trace_model),
    )  # fmt: skip


class TensorLocationSettings(TensorLocationSettingsRows):
    """The memory that a kind of tensor is kept in. It affects memory use, but never values.

    Attributes exist only after they were set; booleans are stored as 0 and 1.
    """

    ROWS = core_table.LOCATION_ROWS


def _check_location(value: TensorLocationSettings) -> dict[str, int]:
    if not isinstance(value, TensorLocationSettings):
        raise AssertionError(f"[options] expected TensorLocationSettings but got {value!r}.")
    return value.toDict()


def _check_location_dict(value: Any) -> dict[str, int]:
    """Checks a dict of settings, in the form that _check_location returns, by their setters."""
    if not isinstance(value, dict):
        raise AssertionError(f"[options] expected a dict of settings but got {value!r}.")
    settings = TensorLocationSettings()
    for name, setting in value.items():
        if not any(name in row.values() for row in settings.ROWS):
            raise ValueError(f"[options] TensorLocationSettings have no {name!r}.")
        setattr(settings, name, setting)
    return settings.toDict()


_check_location.of_stored = _check_location_dict  # type: ignore[attr-defined]


def _of_locations(_option: object, setter: str) -> dict[str, Any]:
    return {"attribute": setter, "created": True}


class TensorLocationOptions(TensorLocationRows):
    """Locations of kinds of tensors: `opts.TensorLocations`.

    Attributes exist only after they were set.
    """

    ROWS = (
        *core_table.rows_of("TensorLocations", kept=_of_locations),
        Row("setActivationLocation", None, _check_location, COMPILE,
            "Sets the location of activations.", attribute="location_activation",
            argument="location", says="location activations", created=True),
        Row("setWeightLocation", None, _check_location, COMPILE,
            "Sets the location of weights.", attribute="location_weight", argument="location",
            says="location weights", created=True),
        Row("setOptimizerLocation", None, _check_location, COMPILE,
            "Sets the location of optimiser state.", attribute="location_optimizer",
            argument="location", says="location optimiser_state", created=True),
        Row("setAccumulatorLocation", None, _check_location, COMPILE,
            "Sets the location of gradient accumulators.", attribute="location_accumulator",
            argument="location", says="location accumulators", created=True),
    )  # fmt: skip


def _check_variable(name: str) -> str:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise ValueError(f"[options] expected a name of a variable but got {name!r}.")
    return name


def _set_variables(_options: OptionGroup, var_num_processes: str, var_process_id: str) -> Stored:
    counted, numbered = _check_variable(var_num_processes), _check_variable(var_process_id)
    processes = environment.number_of_variable(counted, 1, least=1)
    process = environment.number_of_variable(numbered, 0, least=0)
    if process >= processes:
        raise Error(
            f"[environment] {numbered} is {process}, but there are {processes} processes "
            f"({counted}), numbered from 0. Set both, or unset them."
        )
    return {"distributed_process_id": process, "num_distributed_processes": processes}


def _set_processes(_options: OptionGroup, process_id: int, num_processes: int) -> Stored:
    whole(0)(process_id)
    whole(1)(num_processes)
    if process_id >= num_processes:
        raise ValueError(
            f"[options] there is no process {process_id} among {num_processes}: they are numbered "
            f"from 0 to {num_processes - 1}."
        )
    return {"distributed_process_id": process_id, "num_distributed_processes": num_processes}


def _assign_processes(_options, attribute, value):
    if attribute == "ipuof_configs":
        return {attribute: dict(value)}
    # The two are assigned one after the other: whether they fit is checked when they are used.
    return {attribute: whole(0 if attribute == "distributed_process_id" else 1)(value)}


class DistributedOptions(DistributedRows):
    """Several processes without PopRun: `opts.Distributed`.

    The constructor and setEnvVarNames() read the environment.
    """

    ROWS = (
        Row("setEnvVarNames", None, None, HOST,
            "Reads the number of processes and this process's number from these environment "
            "variables. Initially `OMPI_COMM_WORLD_SIZE` and `OMPI_COMM_WORLD_RANK` are read.",
            defaults={}, setter=_set_variables),
        Row("configureProcessId", None, None, HOST,
            "Sets this process's number, from 0, and the number of processes.",
            defaults={"num_distributed_processes": 1, "distributed_process_id": 0,
                      "ipuof_configs": {}},
            setter=_set_processes, assign=_assign_processes),
        Row("disable", None, None, HOST, "Uses one process and ignores the environment.",
            defaults={},
            setter=lambda _o: {"distributed_process_id": 0, "num_distributed_processes": 1}),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        state_of(self).store(_set_variables(self, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))

    @property
    def processId(self) -> int:
        """The number of this process, from 0."""
        return self.distributed_process_id

    @property
    def numProcesses(self) -> int:
        """The number of processes."""
        return self.num_distributed_processes


def _set_device_pool(
    _options: OptionGroup, ipus: int, version: int = 2, folder: str | os.PathLike[str] = ""
) -> Stored:
    whole(0)(ipus)
    if not isinstance(folder, (str, os.PathLike)):
        raise ValueError(f"[options] expected a folder but got {folder!r}.")
    Pool(ipus, version, str(folder))  # raises for invalid values
    return {"device_pool": (ipus, version, str(folder))}


def _assign_device_pool(options, _attribute, value):
    if not isinstance(value, (tuple, list)) or not 1 <= len(value) <= 3:
        raise ValueError(f"[options] expected (IPUs, version, folder) but got {value!r}.")
    return _set_device_pool(options, *value)


def _pool_folder(options) -> str:
    """Returns the folder that pools of option files must be in."""
    given = options.device_pool
    return (given and given[2]) or str(private_folders.runtime_folder())


class EmulatorOptions(EmulatorRows):
    """Options of the emulator, which PopTorch does not have: `opts.Emulator`."""

    ROWS = (
        Row("devicePool", None, None, RUN,
            "Sets the number of IPUs in the pool, a power of two, and their version: 1, 2 or 21. "
            "Processes with the same folder share the pool. If None, POPTORCH_IPU_POOL sets it; "
            "else it has 64 IPUs of version 2.",
            defaults={"device_pool": None}, setter=_set_device_pool, assign=_assign_device_pool,
            stored=tuple[int, int, str], inside=("folder", _pool_folder)),
        *core_table.rows_of("Emulator"),
    )  # fmt: skip


def _record(options: "PopartOptions", key: str, value: Any) -> Stored:
    return {"options": {**options.options, key: value}}


def _record_engine(options: "PopartOptions", values: Mapping[str, Any]) -> Stored:
    return _record(options, "engineOptions", dict(values))


def _record_patterns(
    options: "PopartOptions", patterns: Mapping[str, bool], level: int = 2
) -> Stored:
    named = {"patterns": dict(patterns), "patterns_level": level}
    return {"options": {**options.options, **named}}


def _recomputation(popart) -> int:
    return int(popart.options.get("autoRecomputation", 3))


class PopartOptions(PopartRows):
    """Session options of PopART and of PopTorch's backend: `opts._Popart`.

    Many setters of other groups store their value here. Setting a session option here has the same
    effect as the setter, if there is one. Other session options are only recorded.
    """

    DEFAULTS = {"instrumentWithHardwareCycleCounter": False, "rearrangeAnchorsOnHost": False}
    ROWS = (
        Row("set", None, None, RECORDED, "Records one session option.",
            defaults={"options": DEFAULTS}, setter=_record,
            assign=lambda _o, name, value: {name: dict(value)},
            session=Session(dict, lambda session: session, replaces=True),
            # A PopART RecomputationType: 0 is NoRecompute, 3 is for pipelines only.
            says={"recompute": lambda o: _recomputation(o) != 0,
                  "recompute_alone": lambda o: _recomputation(o) not in (0, 3),
                  "outline": lambda o: bool(o.options.get("enableOutlining", True))}),
        Row("setEngineOptions", None, None, RECORDED, "Records engine options.", defaults={},
            setter=_record_engine),
        Row("setPatterns", None, None, RECORDED, "Records patterns and their level.", defaults={},
            setter=_record_patterns),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        state_of(self).session.update(self.DEFAULTS)

    def __repr__(self) -> str:
        shown = {name: v for name, v in self.options.items() if self.DEFAULTS.get(name) != v}
        return f"PopartOptions(options={shown!r})" if shown else "PopartOptions()"
