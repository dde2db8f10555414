"""Properties of a compiled model: report, schedule, cycles, random state."""

from typing import cast

from poptorch._impl.options import group_class
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._logging import logger_of
from poptorch.options import Options
from poptorch_core import Error
from poptorch_core.reports.figures import Report

logger = logger_of(__name__)


def report(compiled: Compiled) -> Report:
    """Returns the executable's report, with the options that have an effect only on hardware."""
    recorded = group_class.recorded(compiled.options)
    return cast(Report, {**compiled.executable.report(), "recorded_options": recorded})


def schedule_of(compiled: Compiled, micro_batches: int) -> dict:
    """Returns the schedule of a run as a dict; see PoplarExecutor.schedule() for its keys."""
    return compiled.executable.schedule(micro_batches)


def drawing(compiled: Compiled, micro_batches: int) -> str:
    """Returns the schedule as text: a row an IPU, a column a step."""
    return compiled.executable.drawing(micro_batches)


def cycle_count(options: Options, compiled: Compiled | None) -> int:
    """Returns the modelled cycles of the last run.

    Raises poptorch.Error unless Options.logCycleCount is set and the model has run.
    """
    if not options.log_cycle_count:
        raise Error(
            "Cycle count logging is disabled. Please set option logCycleCount to True to enable."
        )
    if compiled is None or not compiled.device.runs:
        raise Error("Please run the model at least once before obtaining cycle count.")
    return compiled.executable.report()["cycles_per_run"]


def log_cycles(compiled: Compiled) -> None:
    """Logs the last run's cycles if Options.logCycleCount is set."""
    if not compiled.options.log_cycle_count:
        return
    if group_class.value_of(compiled.options, "use_model"):
        raise Error("Cycle count logging is only supported on actual IPU hardware.")
    logger.debug(f"Total number of IPU cycles: {cycle_count(compiled.options, compiled)}")


def tell_of_partial_state(compiled: Compiled, model: str) -> None:
    """Warns if an interrupted run updated only a part of the state on the device."""
    if compiled.executable.forget_partial_state():
        logger.warning(
            f"The run of {model} was interrupted in the middle of a step: some weights, "
            "optimiser state or buffers on the device were updated and some were not. Load a "
            "checkpoint, or restore saved weights with copyWeightsToDevice(), to continue from a "
            "complete step"
        )


def compilation_seconds(options: Options, compiled: Compiled | None) -> float:
    """Returns the duration of the compilation in seconds.

    Raises poptorch.Error unless the model is compiled and the progress bar is enabled.
    """
    if compiled is None:
        raise Error("Please compile the model before obtaining compilation time.")
    if not group_class.value_of(options, "_show_compilation_progress_bar"):
        raise Error("Please set showCompilationProgressBar option to obtain compilation time.")
    return compiled.seconds


def check_random_state(values: list[int]) -> None:
    """Raises poptorch.Error unless `values` is [seed, state]."""
    pair = isinstance(values, (list, tuple)) and len(values) == 2
    if not pair or not all(isinstance(value, int) for value in values):
        raise Error(f"[rng_state] expected [seed, state], two integers, but got {values!r}.")


def random_state(compiled: Compiled) -> list[int]:
    """Returns [seed, state]."""
    logger.debug("Reading random seed")
    logger.debug("Reading RNG state")
    return list(compiled.executable.random_state())


def set_random_state(compiled: Compiled, values: list[int]) -> None:
    """Sets [seed, state], which check_random_state() has checked."""
    logger.debug(f"Setting random seed to: {values[0]}")
    logger.debug("Setting RNG state")
    seed, drawn = values
    compiled.executable.set_random_state((seed, drawn))
