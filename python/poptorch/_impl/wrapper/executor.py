"""PoplarExecutor: a user's model, which its first call compiles and all calls run on the device."""

from os import PathLike

import torch
from poptorch._impl.files import executable
from poptorch._impl.inspection import program_report
from poptorch._impl.inspection.queries import Inspected
from poptorch._impl.inspection.source_lines import TellingCall
from poptorch._impl.optimisers import updates
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.weights import assigned, newest, transfer
from poptorch._impl.weights.replica_groups import Request, grouped
from poptorch._impl.wrapper import anchors, description, device_binding, lifecycle, model_classes
from poptorch._impl.wrapper.call_arguments import Arguments
from poptorch._impl.wrapper.compiled_model import Compiled, are_expected, existing
from poptorch._impl.wrapper.host_changes import ModelWatch
from poptorch._impl.wrapper.locking import at_once, one_thread
from poptorch._impl.wrapper.spec import wrapped
from poptorch._impl.wrapper.state import WrapperState, wrapper_state
from poptorch._logging import logger_of
from poptorch._versions import VERSION
from poptorch.options import Options
from poptorch_core import Error

logger = logger_of(__name__)


class PoplarExecutor(Inspected):
    """Runs a model on the device; trainingModel() and inferenceModel() return one.

    A call takes the model's arguments and returns its results. Attributes that this class does not
    define are looked up in the model. Several threads may use a wrapper: one call runs at a time.
    """

    def __init__(
        self,
        model,
        options: Options | None,
        training: bool,
        poptorch_version: str = VERSION,
        optimizer: torch.optim.Optimizer | None = None,
        user_model: torch.nn.Module | None = None,
    ) -> None:
        """Wraps a model. Programs call this only from subclasses; see trainingModel().

        Args:
            poptorch_version: Ignored; accepted for compatibility with PopTorch.
            user_model: The model that owns the weights, if `model` is a copy that shares them.
        """
        if isinstance(model, PoplarExecutor):
            model = wrapper_state(model).wrapped.user_model
        made = wrapped(model, options, training, user_model)
        self._state = WrapperState(
            wrapped=made,
            weights=newest.Weights() if made.module is None else newest.weights_of(made.module),
            optimizer=optimizer,
            watch=None if made.module is None else ModelWatch(made.user_module, made.module),
            looks_at_runs=made.options.log_cycle_count or bool(made.options.anchored_tensors),
        )
        if training:
            model_classes.wrap(made.user_module, self)
            if optimizer is not None:
                Record.of(optimizer).join(self)

    def __call__(self, *args, **kwargs):
        """Runs one step on the device; compiles the model first if necessary.

        Args:
            *args, **kwargs: The model's arguments. A tensor's first dimension is the micro-batch
                size times device iterations, gradient accumulation and replicas.

        Returns:
            The model's results, for the micro-batches that the output mode selects.

        Raises:
            AssertionError: The arguments do not fit the model, or no device may be used.
            poptorch.Error: Arguments differ from the compiled ones, or the run failed.
        """
        state = self._state
        compiled, tensors = state.compiled, args
        if compiled is None or not are_expected(compiled.device.expected, args, kwargs):
            compiled, tensors = self._prepare(args, kwargs)
        device, shared = compiled.device, state.weights
        if compiled.optimiser is not None and not device.has_optimiser:
            self._take_optimiser(compiled)
        if shared.merged_into is not None:
            shared = state.weights = shared.root()
        if device.weights_seen != shared.version:
            self._take_newest_weights(compiled)
        else:
            shared.warn_about_host_changes()
        if compiled.optimiser is not None:
            compiled.optimiser.look()
            if state.watch is not None and state.watch.flags_touched:
                state.watch.look_at_flags(state.wrapped.trained_model)
            if state.looks_at_runs:
                device.loss_scale = anchors.loss_scale(compiled)
            # Set before the run: the device has the newest weights even if the run is interrupted.
            device.weights_seen = shared.changed_on(self)
            device.begun += 1
            compiled.optimiser.stepped_by(self)
        try:
            results = compiled.executable.run(tensors)
        except BaseException:
            program_report.tell_of_partial_state(compiled, state.wrapped.name)
            raise
        device.runs += 1
        if state.looks_at_runs:
            program_report.log_cycles(compiled)
            results = anchors.take(compiled, results)
        return compiled.rebuild(results)

    @one_thread
    def _take_newest_weights(self, compiled: Compiled) -> None:
        transfer.take_newest(compiled, self._state.weights.root(), self.copyWeightsToDevice)

    @one_thread
    def _take_optimiser(self, compiled: Compiled) -> None:
        updates.take_over(self, compiled)

    @one_thread
    def _prepare(self, args: tuple, kwargs: dict) -> tuple[Compiled, list[torch.Tensor]]:
        """Checks a call's arguments; compiles if necessary. Returns the program and its inputs."""
        device_binding.check_online(self._state.wrapped.options)
        compiled = self._state.compiled
        with TellingCall():
            arguments = self._state.wrapped.signature.bind(args, kwargs)
            tensors = arguments.tensors
            if compiled is not None:
                tensors = compiled.arguments.fitted(arguments)
        fresh = compiled is None
        if compiled is None:
            compiled = self._begin(arguments, positional=not kwargs)
        if not compiled.device.attached:
            self._attach(compiled, has_weights=fresh)
        return compiled, tensors if compiled.synthetic_inputs is None else compiled.synthetic_inputs

    @one_thread
    def compile(self, *args, **kwargs) -> None:
        """Traces and compiles the model for `args` and `kwargs`, by their shapes and dtypes."""
        if self._state.compiled is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled")
            return
        with TellingCall():
            arguments = self._state.wrapped.signature.bind(args, kwargs)
        self._begin(arguments, positional=not kwargs)

    def _begin(self, arguments: Arguments, *, positional: bool) -> Compiled:
        compiled = lifecycle.begin(self, arguments, positional=positional)
        self._give_random_state(compiled)
        return compiled

    def _give_random_state(self, compiled: Compiled) -> None:
        """Sends the random state that was set before the compilation to the executable."""
        if self._state.random_state is not None:
            program_report.set_random_state(compiled, self._state.random_state)
            self._state.random_state = None

    def destroy(self) -> None:
        """Copies weights and optimiser state to the host, frees the device and unwraps the model.

        Raises:
            poptorch.Error: Another thread runs or compiles the model.
        """
        with at_once(self, "destroy"):
            lifecycle.end(self)

    @one_thread
    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Uses the values of `optimizer` from the next step on.

        Raises:
            poptorch.Error: A constant attribute or the optimiser's structure changed, or the
                wrapper is an inferenceModel.
        """
        if not self._state.wrapped.training:
            raise Error("[optimiser] an inferenceModel has no optimiser: use trainingModel.")
        updates.use(self, optimizer)

    @property
    def model(self):
        """The copy of the model that the wrapper traces. It shares the tensors."""
        return lifecycle.traced_model(self)

    @property
    def options(self) -> Options:
        """The wrapper's frozen copy of the options."""
        compiled = self._state.compiled
        return self._state.wrapped.options if compiled is None else compiled.options

    @property
    def per_replica_params(self) -> dict[str, Request]:
        """Maps parameters with a replicaGrouping to (CommGroupType, shards, retrieval mode)."""
        return self._state.wrapped.groupings.requests(self._state.wrapped.model)

    def isCompiled(self) -> bool:
        """Returns whether the model is compiled."""
        return self._state.compiled is not None

    def isAttachedToDevice(self) -> bool:
        """Returns whether the executable is loaded onto a device."""
        compiled = self._state.compiled
        return compiled is not None and compiled.device.attached

    @one_thread
    def attachToDevice(self) -> None:
        """Acquires a device again and copies the host's weights to it.

        Raises:
            poptorch.Error: The model is not compiled, is attached already, or no device is free.
        """
        device_binding.check_online(self._state.wrapped.options)
        compiled = existing(self._state.compiled)
        self._attach(compiled, has_weights=False)

    def _attach(self, compiled: Compiled, *, has_weights: bool) -> None:
        device_binding.attach(
            compiled,
            self._state.weights,
            self._state.optimizer,
            has_weights=has_weights,
            upload=self.copyWeightsToDevice,
        )

    @one_thread
    def detachFromDevice(self) -> None:
        """Copies weights and optimiser state to the host, then releases the device."""
        compiled = existing(self._state.compiled)
        device_binding.check_attached(compiled)
        self._state.weights.root().sync_host()
        if self._state.wrapped.training:
            Record.of(self._state.optimizer).refresh()
        device_binding.release(compiled)

    def copyWeightsToHost(self) -> None:
        """Copies this device's parameters and buffers into the model's tensors.

        Reading a stale weight on the host calls this, too.
        """
        transfer.to_host(existing(self._state.compiled), self._state.weights.root(), self)

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Copies weights to the host if a device has newer ones; returns whether it did."""
        return self._state.weights.root().sync_host()

    @one_thread
    def copyWeightsToDevice(self) -> None:
        """Copies the model's tensors to this device; other wrappers of the model copy them later.

        The host's values overwrite any training results on devices that were not fetched. Calls
        that need the host's weights on the device call this, too.
        """
        compiled = existing(self._state.compiled)
        if self._state.wrapped.training:
            Record.of(self._state.optimizer).refresh()
        transfer.to_device(compiled, self._state.weights.root())

    @one_thread
    def copyNamedBuffersToDevice(self) -> None:
        """Copies the buffers that Options.updatableNamedBuffers names to this device."""
        transfer.named_buffers_to_device(existing(self._state.compiled), self._state.wrapped)

    @one_thread
    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        """Loads into the model and, if compiled, onto the device; returns torch's key report.

        Args:
            state_dict: The values by name.
            strict: Whether missing and unexpected names are an error.
            assign: Whether the model uses the memory of the given tensors instead of copies.
        """
        compiled, model = self._state.compiled, self._state.wrapped.user_module
        if assign:
            report = assigned.load(model, state_dict, strict, compiled=compiled is not None)
        else:
            report = model.load_state_dict(state_dict, strict)
        # A failed device gets the weights when it is attached again.
        if compiled is not None and not compiled.executable.has_failed():
            logger.debug("load_state_dict: implicit copyWeightsToDevice()")
            self.copyWeightsToDevice()
        return report

    @property
    def rng_state(self) -> list[int]:
        """The seed of the device's random numbers, and the number of micro-batches that used them.

        Restoring an earlier value makes further runs draw the same numbers again. A value that is
        set before the compilation takes effect with it.
        """
        if self._state.compiled is None and self._state.random_state is not None:
            return list(self._state.random_state)
        return program_report.random_state(existing(self._state.compiled))

    @rng_state.setter
    def rng_state(self, values: list[int]) -> None:
        program_report.check_random_state(values)
        if self._state.compiled is None:
            self._state.random_state = list(values)
        else:
            program_report.set_random_state(self._state.compiled, values)

    @one_thread
    def save(
        self, filename: str | PathLike, export_model: bool = True, save_rng_state: bool = True
    ) -> None:
        """Writes the executable, model, weights and optimiser state to a file atomically.

        Args:
            filename: A file, or a folder for `model.poptorch`. Missing folders are created.
            export_model: False leaves model, options and optimiser out: see loadExecutable().
            save_rng_state: Also saves the state of the device's random numbers.

        Raises:
            poptorch.Error: Nothing is compiled, pickling the model failed, or writing failed.
        """
        executable.save(
            self._state.wrapped,
            existing(self._state.compiled),
            self._state.optimizer if self._state.wrapped.training else None,
            self._state.weights.root(),
            filename,
            export_model,
            save_rng_state,
        )

    @one_thread
    def compileAndExport(
        self, filename: str | PathLike, *args, export_model: bool = True, **kwargs
    ) -> None:
        """Calls compile(*args, **kwargs) unless compiled, then save(filename, export_model)."""
        if not self.isCompiled():
            self.compile(*args, **kwargs)
        self.save(filename, export_model)

    @one_thread
    def loadExecutable(self, filename: str | PathLike) -> None:
        """Loads an executable from a file instead of compiling; keeps weights and optimiser state.

        Args:
            filename: The file that save() or compileAndExport() wrote.

        Raises:
            poptorch.Error: The file is of another version, model or options.
        """
        if self._state.compiled is not None:
            logger.warning("Call to loadExecutable() ignored: the executable is already compiled")
            return
        saved = executable.Saved.open(filename)
        saved.check(self._state.wrapped)
        lifecycle.load(self, saved, with_state=False)
        self._give_random_state(existing(self._state.compiled))

    def __getattr__(self, name: str):
        if name.startswith("__") or "_state" not in self.__dict__:
            raise AttributeError(f"'PoplarExecutor' object has no attribute '{name}'")
        if name == "_torchdynamo_orig_callable":  # torch.compile looks for it first
            raise Error(
                "[torch.compile] a poptorch wrapper is compiled for the device already. Call it as "
                "it is, or pass its model with backend='poptorch'."
            )
        found = getattr(self._state.wrapped.user_model, name)
        if isinstance(found, torch.nn.Parameter) and not hasattr(found, "replicaGrouping"):
            return grouped(found, self._state.wrapped.groupings)
        return found

    def __repr__(self) -> str:
        """Returns a line about the wrapper, then the module's tree."""
        return description.of_wrapper(self._state)

    def __reduce_ex__(self, protocol):
        """Copies and pickles by wrapping a copy of the model again."""
        if self._state.compiled is not None:
            raise Error(
                "[wrapper] a PoplarExecutor cannot be copied or pickled once it is compiled: save "
                "its model, or call its save(), or destroy() first."
            )
        made = self._state.wrapped
        groups = {} if made.module is None else made.groupings.requests(made.module)
        state = {"random_state": self._state.random_state, "groups": groups}
        return _made_again, (self.model, made.asked, made.training, self._state.optimizer), state

    def __setstate__(self, state: dict) -> None:
        self._state.random_state = state["random_state"]
        if self._state.wrapped.module is not None:
            self._state.wrapped.groupings.request_all(self._state.wrapped.module, state["groups"])


def _made_again(
    model, options: Options, training: bool, optimizer: torch.optim.Optimizer | None
) -> PoplarExecutor:
    """Rebuilds a wrapper; pickles refer to this function by name."""
    return PoplarExecutor(model, options, training, optimizer=optimizer)
