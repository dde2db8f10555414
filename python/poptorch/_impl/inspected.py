"""What a wrapper tells of its compiled model: forms, report, schedule, anchored tensors, times."""

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from poptorch._impl import anchors, inspection, notebook, popart_ir, reporting, transfers
from poptorch._impl.compiled import Compiled, existing
from poptorch._impl.transfers import Latency
from poptorch._impl.wrapped import Wrapped
from poptorch_core.reports import data, drawings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Inspected:
    """The part of PoplarExecutor that changes nothing."""

    _compiled: Compiled | None
    _wrapped: Wrapped

    def graph(self, form: str = "placed", locations: bool = False) -> str:
        """The text of a form: "traced", "normal", "differentiated", "placed" or "program"."""
        return existing(self._compiled).executable.text(form, locations)

    def report(self) -> dict:
        """What the emulated IPUs hold, in bytes, and how long a run takes, in cycles.

        "recorded_options" are those that were set and that only hardware could honour.
        """
        return inspection.report(existing(self._compiled))

    def _debugGetPopartIR(self) -> str:
        """The placed form as JSON: {"maingraph": [{"type", "name", "inputs", "outputs",
        "attributes"}, ...], ...}, a list of ops for every graph."""
        compiled = existing(self._compiled)
        if not compiled.executable.has_forms:
            return "unavailable (Cached executable)"
        return popart_ir.as_json(self.graph("placed"), self.graph("program"))

    def schedule(self, micro_batches: int = 64) -> dict:
        """Which IPU works on which micro-batch when: see poptorch._impl.inspection.schedule_of."""
        return inspection.schedule_of(existing(self._compiled), micro_batches)

    def printSchedule(self, micro_batches: int = 64) -> None:
        """Draws schedule() on the standard output: IPUs down, time across."""
        print(inspection.drawing(existing(self._compiled), micro_batches))

    def write_report(self, folder: str | os.PathLike[str]) -> None:
        """Writes what the emulated IPUs hold and do into a folder: report.html, and its data as
        report.json; see docs/profiling.md. Raises poptorch.Error where nothing is compiled or
        nothing can be written."""
        reporting.write(self._wrapped, existing(self._compiled), Path(folder))

    def plot_schedule(self, micro_batches: int = 64) -> "Figure":
        """schedule() as a figure of matplotlib: IPUs down, steps across.

        Raises poptorch.Error where that is not installed.
        """
        return drawings.schedule(self.schedule(micro_batches))

    def plot_memory(self) -> "Figure":
        """What each IPU holds as its program goes on, as a figure of matplotlib.

        Raises poptorch.Error where that is not installed.
        """
        return drawings.memory(data.make(existing(self._compiled).executable, {}))

    def _repr_html_(self) -> str | None:
        """For notebooks, once there is something compiled."""
        return None if self._compiled is None else notebook.of_compiled(self._compiled)

    def getTensorNames(self) -> list[str]:
        """What Options.anchorTensor can name: parameters, buffers and modules by path, inputs, the
        loss, `Gradient___<parameter>`, `UpdatedVar___<parameter>`, the optimiser's state, and of
        SGD `scaledLearningRate0` and `weightDecayScaleFactor0` (`___specific___<parameter>`)."""
        compiled = self._compiled
        if compiled is None:
            raise AssertionError("Model must be compiled before calling getTensorNames")
        return anchors.names(compiled)

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor | dict[str, torch.Tensor]:
        """The last run's value of a tensor that Options.anchorTensor asked for.

        State (weights, buffers, the optimiser's) is as the run left it, `finalLossScale` what the
        run began with. A name with * or ? that matches several tensors gives a dict. Raises
        AssertionError for unknown short names.
        """
        asked, compiled = self._wrapped.options.anchored_tensors, self._compiled
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
        return transfers.counters(self._compiled)

    def getHostIpuLatency(self) -> Latency:
        """(min, max, mean) seconds that a step's inputs took to the device in the last run."""
        return transfers.latency(self._compiled, "input", "input_complete")

    def getComputeLatency(self) -> Latency:
        """(min, max, mean) seconds from a step's last input to its first output."""
        return transfers.latency(self._compiled, "input_complete", "output")

    def getIpuHostLatency(self) -> Latency:
        """(min, max, mean) seconds that a step's outputs took from the device."""
        return transfers.latency(self._compiled, "output", "output_complete")

    def getLatency(self) -> Latency:
        """(min, max, mean) seconds from a step's first input to its last output."""
        return transfers.latency(self._compiled, "input", "output_complete")

    def cycleCount(self) -> int:
        """Modelled cycles of the last run. Needs Options.logCycleCount(True)."""
        return inspection.cycle_count(self._wrapped.options, self._compiled)

    def compilationTime(self) -> datetime.timedelta:
        """How long the compilation took: from the first step of the progress bar to its last."""
        seconds = inspection.compilation_seconds(self._wrapped.options, self._compiled)
        return datetime.timedelta(seconds=seconds)
