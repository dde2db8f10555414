"""Queries of a wrapper's compiled model: IR, report, schedule, anchored tensors, times."""

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
    """The methods of PoplarExecutor that return information and change nothing."""

    _state: WrapperState

    def graph(self, form: str = "placed", locations: bool = False) -> str:
        """Returns the text of an IR stage.

        Args:
            form: "traced", "normal", "differentiated", "placed" or "program".
            locations: Also shows the line of your source for each op.

        Raises:
            poptorch.Error: The model is not compiled, or the executable does not have this stage.
        """
        return existing(self._state.compiled).executable.text(form, locations)

    def report(self) -> Report:
        """Returns memory use, in bytes, and the duration of a run, in cycles, of the emulated IPUs.

        Returns:
            A dict with the keys of Report. Its "recorded_options" are options that were set and
            have an effect only on hardware.

        Raises:
            poptorch.Error: The model is not compiled.
        """
        return program_report.report(existing(self._state.compiled))

    def _debugGetPopartIR(self) -> str:
        """Returns the placed IR as JSON, with a list of ops for every graph.

        An op is {"type", "name", "inputs", "outputs", "attributes"}; the key of the main graph is
        "maingraph".
        """
        compiled = existing(self._state.compiled)
        if not compiled.executable.has_forms:
            return "unavailable (Cached executable)"
        return popart_json.as_json(self.graph("placed"), self.graph("program"))

    def schedule(self, micro_batches: int = 64) -> dict:
        """Returns which IPU works on which micro-batch in which step.

        Args:
            micro_batches: How many of a run's first micro-batches to include.

        Returns:
            A dict with "ipus", "idle_ipus", "stages", "steps", "io_tiles" and these keys:
            "cells", "transfers": the work and the transfers, each with its step.
            "blocks": the names of each IPU's blocks.
            "phases": the phase of each step; empty without phases.
            "streams": the work that transfers with the host may overlap with.
            "bubbles": the share of steps in which IPUs are idle.
            "bottleneck": the stage with the most cycles a micro-batch.

        Raises:
            poptorch.Error: The model is not compiled.
        """
        return program_report.schedule_of(existing(self._state.compiled), micro_batches)

    def printSchedule(self, micro_batches: int = 64) -> None:
        """Prints schedule() as a chart: a row an IPU, a column a step."""
        print(program_report.drawing(existing(self._state.compiled), micro_batches))

    def write_report(self, folder: str | os.PathLike[str]) -> None:
        """Writes report.html, and its data as report.json, into a folder; see docs/howto/report.md.

        Raises:
            poptorch.Error: The model is not compiled, or the folder is not writable.
        """
        written_reports.write(self._state.wrapped, existing(self._state.compiled), Path(folder))

    def plot_schedule(self, micro_batches: int = 64) -> "Figure":
        """Draws schedule() as a matplotlib figure: a row an IPU, a column a step.

        Raises:
            poptorch.Error: The model is not compiled, or matplotlib is not installed.
        """
        from poptorch_core.reports import drawings  # imports numpy

        return drawings.schedule(self.schedule(micro_batches))

    def plot_memory(self) -> "Figure":
        """Draws each IPU's memory use over the course of the program as a matplotlib figure.

        Raises:
            poptorch.Error: The model is not compiled, or matplotlib is not installed.
        """
        from poptorch_core.reports import data, drawings

        return drawings.memory(data.make(existing(self._state.compiled).executable, {}))

    def _repr_html_(self) -> str | None:
        """Returns HTML for notebooks, or None if the model is not compiled."""
        return None if self._state.compiled is None else notebook.of_compiled(self._state.compiled)

    def getTensorNames(self) -> list[str]:
        """Returns the names that Options.anchorTensor accepts.

        These are parameters, buffers and modules by path, inputs, the loss,
        `Gradient___<parameter>`, `UpdatedVar___<parameter>` and the optimiser's state. SGD adds
        `scaledLearningRate0` and `weightDecayScaleFactor0` (`___specific___<parameter>`).

        Raises:
            AssertionError: The model is not compiled.
        """
        compiled = self._state.compiled
        if compiled is None:
            raise AssertionError("Model must be compiled before calling getTensorNames")
        return anchors.names(compiled)

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor | dict[str, torch.Tensor]:
        """Returns the last run's value of a tensor that Options.anchorTensor named.

        Args:
            short_name: The first argument of Options.anchorTensor.

        Returns:
            The tensor; a dict of tensors by name if the anchor's name has * or ? and matches
            several. Weights, buffers and optimiser state have their values after the run;
            `finalLossScale` has its value before the run.

        Raises:
            AssertionError: The short name is unknown, or the model has not run.
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
        """Returns the times of the last run's transfers, in seconds of time.perf_counter().

        Returns:
            A dict of "input", "input_complete", "output" and "output_complete" to a list per
            tensor. The list of an input has a time for each micro-batch and replica, that of an
            output a time for each returned value.
        """
        return latency.counters(self._state.compiled)

    def getHostIpuLatency(self) -> Latency:
        """Returns (min, max, mean) seconds of the transfer of a step's inputs to the device."""
        return latency.latency(self._state.compiled, "input", "input_complete")

    def getComputeLatency(self) -> Latency:
        """Returns (min, max, mean) seconds from a step's last input to its first output."""
        return latency.latency(self._state.compiled, "input_complete", "output")

    def getIpuHostLatency(self) -> Latency:
        """Returns (min, max, mean) seconds of the transfer of a step's outputs to the host."""
        return latency.latency(self._state.compiled, "output", "output_complete")

    def getLatency(self) -> Latency:
        """Returns (min, max, mean) seconds from a step's first input to its last output."""
        return latency.latency(self._state.compiled, "input", "output_complete")

    def cycleCount(self) -> int:
        """Returns the modelled cycles of the last run.

        Raises:
            poptorch.Error: Options.logCycleCount(True) is not set, or the model has not run.
        """
        return program_report.cycle_count(self._state.wrapped.options, self._state.compiled)

    def compilationTime(self) -> datetime.timedelta:
        """Returns the duration of the compilation: the progress bar's first step to its last.

        Raises:
            poptorch.Error: The model is not compiled, or Options.showCompilationProgressBar is off.
        """
        state = self._state
        seconds = program_report.compilation_seconds(state.wrapped.options, state.compiled)
        return datetime.timedelta(seconds=seconds)
