"""What a compiled model tells of itself: report, schedule, cycles, random state."""

from typing import cast

from poptorch._impl.options import group_class
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._logging import logger_of
from poptorch.options import Options
from poptorch_core import Error
from poptorch_core.reports.figures import Report

logger = logger_of(__name__)


def report(compiled: Compiled) -> Report:
    """Returns the executable's report, with the options that only hardware could honour."""
    recorded = group_class.recorded(compiled.options)
    return cast(Report, {**compiled.executable.report(), "recorded_options": recorded})


def schedule_of(compiled: Compiled, micro_batches: int) -> dict:
    """{"ipus", "idle_ipus", "stages", "blocks", "phases", "steps", "cells", "transfers", "streams",
    "io_tiles", "bubbles", "bottleneck"}: cells and transfers say in which step they are, blocks the
    names of what each IPU runs, phases the numbers of phases by step (none without phases), streams
    what transfers with the host may overlap with, bubbles the share of steps in which IPUs do
    nothing, bottleneck the stage with the most cycles a micro-batch."""
    return compiled.executable.schedule(micro_batches)


def drawing(compiled: Compiled, micro_batches: int) -> str:
    """The schedule, IPUs down and steps across."""
    return compiled.executable.drawing(micro_batches)


def cycle_count(options: Options, compiled: Compiled | None) -> int:
    """Modelled cycles of the last run. Raises poptorch.Error without the option, or a run."""
    if not options.log_cycle_count:
        raise Error(
            "Cycle count logging is disabled. Please set option logCycleCount to True to enable."
        )
    if compiled is None or not compiled.device.runs:
        raise Error("Please run the model at least once before obtaining cycle count.")
    return compiled.executable.report()["cycles_per_run"]


def log_cycles(compiled: Compiled) -> None:
    """Logs the last run's cycles where the options ask for it."""
    if not compiled.options.log_cycle_count:
        return
    if group_class.value_of(compiled.options, "use_model"):
        raise Error("Cycle count logging is only supported on actual IPU hardware.")
    logger.debug(f"Total number of IPU cycles: {cycle_count(compiled.options, compiled)}")


def tell_of_partial_state(compiled: Compiled, model: str) -> None:
    """Warns when a run left some of the state that it writes unwritten."""
    if compiled.executable.forget_partial_state():
        logger.warning(
            f"The run of {model} was cut short: of the step at hand, some weights, "
            "optimiser state or buffers are updated on the device and some are not. It goes on "
            "with those; load a checkpoint, or call copyWeightsToDevice() with weights that "
            "the host has kept, to go on from a whole step"
        )


def compilation_seconds(options: Options, compiled: Compiled | None) -> float:
    """Raises poptorch.Error without the progress bar, or the model."""
    if compiled is None:
        raise Error("Please compile the model before obtaining compilation time.")
    if not group_class.value_of(options, "_show_compilation_progress_bar"):
        raise Error("Please set showCompilationProgressBar option to obtain compilation time.")
    return compiled.seconds


def check_random_state(values: list[int]) -> None:
    """Raises poptorch.Error for anything but [seed, state]."""
    pair = isinstance(values, (list, tuple)) and len(values) == 2
    if not pair or not all(isinstance(value, int) for value in values):
        raise Error(f"[rng_state] expected [seed, state], two integers, but got {values!r}.")


def random_state(compiled: Compiled) -> list[int]:
    """[seed, state]."""
    logger.debug("Reading random seed")
    logger.debug("Reading RNG state")
    return list(compiled.executable.random_state())


def set_random_state(compiled: Compiled, values: list[int]) -> None:
    """Values that check_random_state has let pass."""
    logger.debug(f"Setting random seed to: {values[0]}")
    logger.debug("Setting RNG state")
    seed, drawn = values
    compiled.executable.set_random_state((seed, drawn))
