"""What a wrapper tells of its compiled model: names, anchors, times, cycles, random state."""

import datetime
import difflib

import torch
from poptorch._impl import optimiser_state, popart_ir, schedule
from poptorch._logging import logger
from poptorch_core import Error

NOT_COMPILED = (
    "Model has not been compiled or has been destroyed. Call the wrapper, or its compile(), first."
)
LOSS_SCALE = "finalLossScale"
Latency = tuple[float, float, float]


class Inspection:
    """Mixed into PoplarExecutor, whose attributes it reads."""

    def _compiled(self):
        if self._executable is None:
            raise Error(NOT_COMPILED)
        return self._executable

    def graph(self, form: str = "placed", locations: bool = False) -> str:
        """The text of a form: "traced", "normal", "differentiated", "placed" or "program"."""
        return self._compiled().text(form, locations)

    def report(self) -> dict:
        """What the emulated IPUs hold, in bytes, and how long a run takes, in cycles.

        "recorded_options" are those that were set and that only hardware could honour.
        """
        return {
            **self._compiled().report(),
            "recorded_options": self._options._recorded(),
        }

    def _debugGetPopartIR(self) -> str:
        """The placed form as JSON: {"maingraph": [{"type", "name", "inputs", "outputs",
        "attributes"}, ...], ...}, a list of ops for every graph."""
        return popart_ir.as_json(self.graph("placed"))

    def schedule(self, micro_batches: int = 64) -> dict:
        """Which IPU works on which micro-batch when: see poptorch._impl.schedule.describe."""
        options = self._options
        a_round = options.Training.gradient_accumulation if self._training else 0
        return schedule.describe(
            self._compiled().timeline(micro_batches),
            self.report(),
            strategy=options.execution_strategy.NAME,
            a_round=a_round or options.device_iterations,
            io_tiles=options.TensorLocations.num_io_tiles,
        )

    def printSchedule(self, micro_batches: int = 64) -> None:
        """Draws schedule() on the standard output: IPUs down, time across."""
        print(schedule.draw(self.schedule(micro_batches)))

    def getTensorNames(self) -> list[str]:
        """What Options.anchorTensor can name: parameters, buffers and modules by path, inputs, the
        loss, `Gradient___<parameter>`, `UpdatedVar___<parameter>`, the optimiser's state, and of
        SGD `scaledLearningRate0` and `weightDecayScaleFactor0` (`___specific___<parameter>`)."""
        assert self._executable is not None, "Model must be compiled before calling getTensorNames"
        values = self._executable.anchor_names()
        return [*dict.fromkeys([*self._state_names(), *values])]

    def _state_names(self) -> list[str]:
        kind = self._optimiser_spec["kind"] if self._training else None
        names = list(optimiser_state.states_by_name(self._executable, kind))
        if not self._training:
            return names
        return [*names, LOSS_SCALE, *(optimiser_state.RATES if kind == "sgd" else ())]

    def _states_asked(self, pattern: str) -> list[str]:
        """The names of state, and of numbers of the optimiser, that an anchor means."""
        if self._training and self._rate(pattern) is not None:
            return [pattern]
        return optimiser_state.matching(pattern, self._state_names())

    def _rate(self, name: str) -> torch.Tensor | None:
        return optimiser_state.rate(name, self._optimiser_spec, self._loss_scale())

    def _anchor_requests(self, input_names: list[str]) -> list[tuple[str, int, int]]:
        """(name, output mode, period) of every anchor, for the compiler."""
        inputs = {name: f"input{i}" for i, name in enumerate(input_names)}
        inputs.setdefault("input", "input0")
        mode = self._options.output_mode, self._options.output_return_period
        requests = []
        for name, own_mode, period in self._options.anchored_tensors.values():
            chosen = mode if own_mode is None else (own_mode, period)
            requests.append((inputs.get(name, name), *chosen))
        return requests

    def _check_anchors(self) -> None:
        """Raises poptorch.Error for an anchor that names nothing."""
        found = {index for index, _ in self._executable.anchored()}
        for index, (name, _, _) in enumerate(self._options.anchored_tensors.values()):
            if index not in found and not self._states_asked(name):
                known = self.getTensorNames()
                close = difflib.get_close_matches(name, known, 3, 0.3) or known[:3]
                raise Error(
                    f"[anchorTensor] the model has no tensor {name}. The closest are "
                    f"{', '.join(close)}; getTensorNames() lists all."
                )

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor | dict[str, torch.Tensor]:
        """The last run's value of a tensor that Options.anchorTensor asked for.

        State (weights, buffers, the optimiser's) is as the run left it, `finalLossScale` what the
        run began with. A name with * or ? that
        matches several tensors gives a dict. Raises AssertionError for unknown short names.
        """
        anchors = self._options.anchored_tensors
        assert short_name in anchors, f"No tensor with name {short_name} found."
        assert self._runs, f"No tensor with name {short_name} found. Run the model first."
        index = list(anchors).index(short_name)
        found = {
            name: tensor
            for (asked, name), tensor in zip(
                self._executable.anchored(), self._anchored, strict=True
            )
            if asked == index
        }
        kind = self._optimiser_spec["kind"] if self._training else None
        slots = optimiser_state.states_by_name(self._executable, kind)
        for name in self._states_asked(anchors[short_name][0]):
            if name in slots:
                found[name] = self._executable.read_state(slots[name])
            else:
                found[name] = self._used_loss_scale if name == LOSS_SCALE else self._rate(name)
        return next(iter(found.values())) if len(found) == 1 else found

    def _loss_scale(self) -> torch.Tensor:
        scale = torch.tensor(self._optimiser_spec["loss_scaling"])
        if self._optimiser_spec["automatic_loss_scaling"]:
            scale = scale * self._executable.read_state("optimiser.loss_scale_factor").float()
        return scale

    def getPerfCounters(self) -> dict[str, list[list[float]]]:
        """When the last run's transfers took place, in seconds of time.perf_counter().

        {"input", "input_complete", "output", "output_complete"} → for each tensor, a list of one
        time a step: micro-batches × replicas of inputs, those returned of outputs.
        """
        if self._executable is None or not self._runs:
            return {name: [[]] for name in _COUNTERS}
        inputs = len(self._executable.input_types())
        outputs = sum(isinstance(source, int) for source in self._executable.outputs)
        times = [self._executable.transfer_times(i) for i in range(inputs + outputs)]
        by_counter = [times[:inputs], times[:inputs], times[inputs:], times[inputs:]]
        return {
            name: [[step[i % 2] for step in tensor] for tensor in tensors]
            for i, (name, tensors) in enumerate(zip(_COUNTERS, by_counter, strict=True))
        }

    def _latency(self, first: str, last: str) -> Latency:
        counters = self.getPerfCounters()
        outputs = len(counters["output"][0]) if counters["output"] else 0
        if not outputs or not counters["input"] or not counters["input"][0]:
            return 0.0, 0.0, 0.0
        groups = {
            name: _grouped(counters[name], outputs, max if "complete" in name else min)
            for name in _COUNTERS
        }
        spans = [max(b - a, 0.0) for a, b in zip(groups[first], groups[last], strict=True)]
        return min(spans), max(spans), sum(spans) / len(spans)

    def getHostIpuLatency(self) -> Latency:
        """(min, max, mean) seconds that a step's inputs took to the device in the last run."""
        return self._latency("input", "input_complete")

    def getComputeLatency(self) -> Latency:
        """(min, max, mean) seconds from a step's last input to its first output."""
        return self._latency("input_complete", "output")

    def getIpuHostLatency(self) -> Latency:
        """(min, max, mean) seconds that a step's outputs took from the device."""
        return self._latency("output", "output_complete")

    def getLatency(self) -> Latency:
        """(min, max, mean) seconds from a step's first input to its last output."""
        return self._latency("input", "output_complete")

    def cycleCount(self) -> int:
        """Modelled cycles of the last run. Needs Options.logCycleCount(True)."""
        if not self._options.log_cycle_count:
            raise Error(
                "Cycle count logging is disabled. Please set option logCycleCount to True to "
                "enable."
            )
        if self._runs == 0:
            raise Error("Please run the model at least once before obtaining cycle count.")
        return self._compiled().report()["cycles_per_run"]

    def _look_at(self, results: list[torch.Tensor]) -> list[torch.Tensor]:
        """Keeps a run's anchored tensors and logs its cycles; gives the model's own results."""
        if self._options.log_cycle_count:
            if self._options.use_model:
                raise Error("Cycle count logging is only supported on actual IPU hardware.")
            logger.debug(f"Total number of IPU cycles: {self.cycleCount()}")
        kept = len(results) - len(self._compiled().anchored())
        self._anchored = results[kept:]
        return results[:kept]

    def compilationTime(self) -> datetime.timedelta:
        """How long the compilation took."""
        if not self._options.show_compilation_progress_bar:
            raise Error("Please set showCompilationProgressBar option to obtain compilation time.")
        if self._compile_seconds is None:
            raise Error("Please compile the model before obtaining compilation time.")
        return datetime.timedelta(seconds=self._compile_seconds)

    @property
    def rng_state(self) -> list[int]:
        """Seed of the device's random numbers, and how many micro-batches have drawn from them.

        Set to what it was, further runs draw the same numbers again.
        """
        return list(self._compiled().random_state())

    @rng_state.setter
    def rng_state(self, values: list[int]) -> None:
        executable = self._compiled()
        pair = isinstance(values, (list, tuple)) and len(values) == 2
        if not pair or not all(isinstance(value, int) for value in values):
            raise Error(f"[rng_state] expected [seed, state], two integers, but got {values!r}.")
        executable.set_random_state(tuple(values))


_COUNTERS = ("input", "input_complete", "output", "output_complete")


def _grouped(tensors: list[list[float]], outputs: int, choose) -> list[float]:
    """For each output step, the first or last time among its steps of all tensors."""
    found = []
    for k in range(outputs):
        times = []
        for steps in tensors:
            size = max(1, len(steps) // outputs)
            times += steps[k * size : (k + 1) * size]
        found.append(choose(times))
    return found
