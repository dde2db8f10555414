"""What a wrapper tells of its compiled model: forms, report, schedule, anchored tensors, times."""

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from poptorch._impl.inspection import (
    latency,
    notebook,
    popart_json,
    program_report,
    written_reports,
)
from poptorch._impl.inspection.latency import Latency
from poptorch._impl.wrapper import anchors
from poptorch._impl.wrapper.compiled_model import existing
from poptorch._impl.wrapper.state import WrapperState
from poptorch_core.reports.figures import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Inspected:
    """The part of PoplarExecutor that changes nothing."""

    _state: WrapperState

    def graph(self, form: str = "placed", locations: bool = False) -> str:
        """The text of a form: "traced", "normal", "differentiated", "placed" or "program"."""
        return existing(self._state.compiled).executable.text(form, locations)

    def report(self) -> Report:
        """What the emulated IPUs hold, in bytes, and how long a run takes, in cycles.

        "recorded_options" are those that were set and that only hardware could honour.
        """
        return program_report.report(existing(self._state.compiled))

    def _debugGetPopartIR(self) -> str:
        """The placed form as JSON: {"maingraph": [{"type", "name", "inputs", "outputs",
        "attributes"}, ...], ...}, a list of ops for every graph."""
        compiled = existing(self._state.compiled)
        if not compiled.executable.has_forms:
            return "unavailable (Cached executable)"
        return popart_json.as_json(self.graph("placed"), self.graph("program"))

    def schedule(self, micro_batches: int = 64) -> dict:
        """Which IPU works on which micro-batch when: see poptorch._impl.inspection.schedule_of."""
        return program_report.schedule_of(existing(self._state.compiled), micro_batches)

    def printSchedule(self, micro_batches: int = 64) -> None:
        """Draws schedule() on the standard output: IPUs down, time across."""
        print(program_report.drawing(existing(self._state.compiled), micro_batches))

    def write_report(self, folder: str | os.PathLike[str]) -> None:
        """Writes what the emulated IPUs hold and do into a folder: report.html, and its data as
        report.json; see docs/profiling.md. Raises poptorch.Error where nothing is compiled or
        nothing can be written."""
        written_reports.write(self._state.wrapped, existing(self._state.compiled), Path(folder))

    def plot_schedule(self, micro_batches: int = 64) -> "Figure":
        """schedule() as a figure of matplotlib: IPUs down, steps across.

        Raises poptorch.Error where that is not installed.
        """
        from poptorch_core.reports import drawings  # which imports numpy

        return drawings.schedule(self.schedule(micro_batches))

    def plot_memory(self) -> "Figure":
        """What each IPU holds as its program goes on, as a figure of matplotlib.

        Raises poptorch.Error where that is not installed.
        """
        from poptorch_core.reports import data, drawings

        return drawings.memory(data.make(existing(self._state.compiled).executable, {}))

    def _repr_html_(self) -> str | None:
        """For notebooks, once there is something compiled."""
        return None if self._state.compiled is None else notebook.of_compiled(self._state.compiled)

    def getTensorNames(self) -> list[str]:
        """What Options.anchorTensor can name: parameters, buffers and modules by path, inputs, the
        loss, `Gradient___<parameter>`, `UpdatedVar___<parameter>`, the optimiser's state, and of
        SGD `scaledLearningRate0` and `weightDecayScaleFactor0` (`___specific___<parameter>`)."""
        compiled = self._state.compiled
        if compiled is None:
            raise AssertionError("Model must be compiled before calling getTensorNames")
        return anchors.names(compiled)

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor | dict[str, torch.Tensor]:
        """The last run's value of a tensor that Options.anchorTensor asked for.

        State (weights, buffers, the optimiser's) is as the run left it, `finalLossScale` what the
        run began with. A name with * or ? that matches several tensors gives a dict. Raises
        AssertionError for unknown short names.
        """
        asked, compiled = self._state.wrapped.options.anchored_tensors, self._state.compiled
        if short_name not in asked:
            raise AssertionError(
                f"No tensor with name {short_name} found. Options.anchorTensor named {list(asked)} "
                "before the model was compiled."
            )
        if compiled is None or not compiled.device.runs:
            raise AssertionError(f"No tensor with name {short_name} found. Run the model first.")
        return anchors.value(compiled, short_name)

    def getPerfCounters(self) -> dict[str, list[list[float]]]:
        """When the last run's transfers took place, in seconds of time.perf_counter().

        {"input", "input_complete", "output", "output_complete"} → for each tensor, a list of one
        time a step: micro-batches × replicas of inputs, those returned of outputs.
        """
        return latency.counters(self._state.compiled)

    def getHostIpuLatency(self) -> Latency:
        """(min, max, mean) seconds that a step's inputs took to the device in the last run."""
        return latency.latency(self._state.compiled, "input", "input_complete")

    def getComputeLatency(self) -> Latency:
        """(min, max, mean) seconds from a step's last input to its first output."""
        return latency.latency(self._state.compiled, "input_complete", "output")

    def getIpuHostLatency(self) -> Latency:
        """(min, max, mean) seconds that a step's outputs took from the device."""
        return latency.latency(self._state.compiled, "output", "output_complete")

    def getLatency(self) -> Latency:
        """(min, max, mean) seconds from a step's first input to its last output."""
        return latency.latency(self._state.compiled, "input", "output_complete")

    def cycleCount(self) -> int:
        """Modelled cycles of the last run. Needs Options.logCycleCount(True)."""
        return program_report.cycle_count(self._state.wrapped.options, self._state.compiled)

    def compilationTime(self) -> datetime.timedelta:
        """How long the compilation took: from the first step of the progress bar to its last."""
        state = self._state
        seconds = program_report.compilation_seconds(state.wrapped.options, state.compiled)
        return datetime.timedelta(seconds=seconds)
