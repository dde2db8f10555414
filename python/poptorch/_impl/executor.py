"""PoplarExecutor: a user's model, compiled at its first call and run on the device ever after."""

import datetime
import threading

import torch
from poptorch._impl import (
    anchors,
    attachment,
    blocks,
    inspection,
    lifetimes,
    optimiser_updates,
    optimisers,
    popart_ir,
    refused,
    transfers,
    weight_copies,
    weights,
)
from poptorch._impl.changes import ModelWatch
from poptorch._impl.compiled import Compiled, existing
from poptorch._impl.locations import user_location
from poptorch._impl.one_thread import at_once, one_thread
from poptorch._impl.optimiser_state import Record
from poptorch._impl.replica_groups import grouped
from poptorch._impl.transfers import Latency
from poptorch._impl.wrapped import wrapped
from poptorch._logging import logger
from poptorch.options import Options
from poptorch_core import Error


class PoplarExecutor:
    """Made by poptorch.trainingModel and poptorch.inferenceModel.

    The call takes the model's arguments, with the batching factors of the options in the first
    dimension, and gives the model's results. What this class lacks is looked up in the model.
    Several threads may use a wrapper: their calls take turns.
    """

    def __init__(
        self,
        model,
        options: Options | None,
        training: bool,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        if isinstance(model, PoplarExecutor):
            model = model.model
        self._lock = threading.RLock()
        self._compiled: Compiled | None = None
        self._wrapped = wrapped(model, options, training)
        self._training = training
        module = self._wrapped.module
        self._weights = weights.Weights() if module is None else weights.weights_of(module)
        self._optimizer = optimizer
        self._model_watch = None if module is None else ModelWatch(model)
        options = self._wrapped.options
        self._looks_at_runs = options.log_cycle_count or bool(options.anchored_tensors)
        if training:
            weights.wrap(model, self)

    def __call__(self, *args, **kwargs):
        """One step: the model's results, of the micro-batches that the output mode asks for."""
        compiled, tensors = self._compiled, args
        expected = None if compiled is None else compiled.device.expected
        if expected is None or kwargs or len(args) != len(expected):
            compiled, tensors = self._prepare(args, kwargs)
        else:
            for tensor, (shape, dtype) in zip(args, expected):  # noqa: B905  (lengths are equal)
                if (
                    type(tensor) is not torch.Tensor
                    or tensor.dtype is not dtype
                    or tensor.shape != shape
                ):
                    compiled, tensors = self._prepare(args, kwargs)
                    break
        device, shared = compiled.device, self._weights
        if shared.merged_into is not None:
            shared = self._weights = shared.root()
        if device.weights_seen != shared.version:
            self._take_newest_weights(compiled)
        else:
            shared.warn_about_host_changes()
        if self._training:
            compiled.optimiser.look()
            if self._model_watch.flags_touched:
                self._model_watch.look_at_flags(self._wrapped.model)
            if self._looks_at_runs:
                device.loss_scale = anchors.loss_scale(compiled)
            # Before the run: the device has the newest weights also when that is cut short.
            device.weights_seen = shared.changed_on(self)
        try:
            results = compiled.executable.run(tensors)
        except BaseException:
            inspection.tell_of_partial_state(compiled, self._wrapped.name)
            raise
        device.runs += 1
        if self._looks_at_runs:
            inspection.log_cycles(compiled)
            results = anchors.take(compiled, results)
        return compiled.rebuild(results)

    @one_thread
    def _take_newest_weights(self, compiled: Compiled) -> None:
        weight_copies.take_newest(compiled, self._weights.root())

    @one_thread
    def _prepare(self, args: tuple, kwargs: dict) -> tuple[Compiled, list[torch.Tensor]]:
        """Binds and checks a call's arguments; compiles when needed; gives what is to run, and the
        tensors."""
        attachment.check_online(self._wrapped.options)
        compiled = self._compiled
        try:
            arguments = self._wrapped.signature.bind(args, kwargs)
            tensors = arguments.tensors
            if compiled is not None:
                tensors = compiled.arguments.fitted(arguments)
        except (Error, AssertionError) as error:
            text = error.message if isinstance(error, Error) else str(error)
            raise type(error)(f"{text} (called at {user_location()})") from None
        fresh = compiled is None
        if compiled is None:
            compiled = lifetimes.begin(self, arguments, positional=not kwargs)
        if not compiled.device.attached:
            attachment.attach(compiled, self._weights, has_weights=fresh)
        return compiled, tensors if compiled.synthetic_inputs is None else compiled.synthetic_inputs

    @one_thread
    def compile(self, *args, **kwargs) -> None:
        """Traces and compiles for arguments like these, without running."""
        if self._compiled is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled")
            return
        arguments = self._wrapped.signature.bind(args, kwargs)
        lifetimes.begin(self, arguments, positional=not kwargs)

    def destroy(self) -> None:
        """Fetches weights and optimiser state, frees the device and unwraps the model.

        Raises poptorch.Error while another thread runs or compiles the model.
        """
        with at_once(self, "destroy"):
            lifetimes.end(self)

    @one_thread
    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes the values of `optimizer`, from the next step on.

        Raises poptorch.Error where a constant attribute or the optimiser's structure changed.
        """
        if not self._training:
            raise Error("[optimiser] an inferenceModel has no optimiser: use trainingModel.")
        if self._compiled is not None:
            optimiser_updates.exchange(self, self._compiled, optimizer)
        else:
            optimisers.kind_of(optimizer)
        self._optimizer = optimizer

    @property
    def model(self):
        """The user's model."""
        return self._wrapped.user_model

    @property
    def options(self) -> Options:
        """The wrapper's frozen copy of the options."""
        return self._wrapped.options if self._compiled is None else self._compiled.options

    def isCompiled(self) -> bool:
        """Whether there is an executable."""
        return self._compiled is not None

    def isAttachedToDevice(self) -> bool:
        """Whether the executable is on a device."""
        compiled = self._compiled
        return compiled is not None and compiled.device.attached

    @one_thread
    def attachToDevice(self) -> None:
        """Takes a device again, with the weights as the host has them.

        Raises poptorch.Error when not compiled, attached, or where no device can be had: see
        device_pool.acquire. The IPU Model takes none.
        """
        attachment.check_online(self._wrapped.options)
        attachment.attach(existing(self._compiled), self._weights, has_weights=False)

    @one_thread
    def detachFromDevice(self) -> None:
        """Gives the device back; weights and optimiser state come to the host before."""
        compiled = existing(self._compiled)
        attachment.check_attached(compiled)
        self._weights.root().sync_host()
        if self._training:
            Record.of(self._optimizer).refresh()
        attachment.release(compiled)

    @one_thread
    def copyWeightsToHost(self) -> None:
        """Copies this device's parameters and buffers into the model's tensors."""
        weight_copies.to_host(existing(self._compiled), self._weights.root(), self)

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Fetches the newest weights from whichever device has them; whether there were any."""
        return self._weights.root().sync_host()

    @one_thread
    def copyWeightsToDevice(self) -> None:
        """Copies the model's tensors to this device; other wrappers of the model follow.

        What training changed on a device and nobody has fetched is lost: the host's values count.
        """
        weight_copies.to_device(existing(self._compiled), self._weights.root())

    @one_thread
    def copyNamedBuffersToDevice(self) -> None:
        """Copies the buffers of Options.updatableNamedBuffers to this device."""
        weight_copies.named_buffers_to_device(existing(self._compiled), self._wrapped)

    @one_thread
    def load_state_dict(self, state_dict, strict: bool = True):
        """Loads into the model and, when compiled, onto the device; torch's report of keys."""
        report = self.model.load_state_dict(state_dict, strict)
        if self._compiled is not None:
            self.copyWeightsToDevice()
        return report

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
        return popart_ir.as_json(self.graph("placed"))

    def schedule(self, micro_batches: int = 64) -> dict:
        """Which IPU works on which micro-batch when: see poptorch._impl.inspection.schedule_of."""
        return inspection.schedule_of(existing(self._compiled), micro_batches)

    def printSchedule(self, micro_batches: int = 64) -> None:
        """Draws schedule() on the standard output: IPUs down, time across."""
        print(inspection.drawing(existing(self._compiled), micro_batches))

    def getTensorNames(self) -> list[str]:
        """What Options.anchorTensor can name: parameters, buffers and modules by path, inputs, the
        loss, `Gradient___<parameter>`, `UpdatedVar___<parameter>`, the optimiser's state, and of
        SGD `scaledLearningRate0` and `weightDecayScaleFactor0` (`___specific___<parameter>`)."""
        compiled = self._compiled
        assert compiled is not None, "Model must be compiled before calling getTensorNames"
        return anchors.names(compiled)

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor | dict[str, torch.Tensor]:
        """The last run's value of a tensor that Options.anchorTensor asked for.

        State (weights, buffers, the optimiser's) is as the run left it, `finalLossScale` what the
        run began with. A name with * or ? that matches several tensors gives a dict. Raises
        AssertionError for unknown short names.
        """
        asked, compiled = self._wrapped.options.anchored_tensors, self._compiled
        assert short_name in asked, f"No tensor with name {short_name} found."
        assert compiled is not None and compiled.device.runs, (
            f"No tensor with name {short_name} found. Run the model first."
        )
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
        """How long the compilation took."""
        seconds = inspection.compilation_seconds(self._wrapped.options, self._compiled)
        return datetime.timedelta(seconds=seconds)

    @property
    def rng_state(self) -> list[int]:
        """Seed of the device's random numbers, and how many micro-batches have drawn from them.

        Set to what it was, further runs draw the same numbers again.
        """
        return list(existing(self._compiled).executable.random_state())

    @rng_state.setter
    def rng_state(self, values: list[int]) -> None:
        inspection.set_random_state(existing(self._compiled), values)

    compileAndExport = refused.method("compileAndExport")
    save = refused.method("save")
    loadExecutable = refused.method("loadExecutable")

    def __getattr__(self, name: str):
        if name.startswith("__") or "_wrapped" not in self.__dict__:
            raise AttributeError(f"'PoplarExecutor' object has no attribute '{name}'")
        found = getattr(self._wrapped.user_model, name)
        if isinstance(found, torch.nn.Parameter) and not hasattr(found, "replicaGrouping"):
            return grouped(found, self._wrapped.groupings)
        return found

    def __repr__(self) -> str:
        module = self._wrapped.module
        return repr(self._wrapped.model) if module is None else blocks.text_with_blocks(module)

    def __reduce_ex__(self, protocol):
        raise Error(
            "[wrapper] a PoplarExecutor cannot be copied or pickled: save its model, or the "
            "state_dict() of the model, and wrap that again."
        )

    def __deepcopy__(self, memo):
        raise Error(
            "[wrapper] a PoplarExecutor cannot be copied: copy the model and wrap the copy."
        )
