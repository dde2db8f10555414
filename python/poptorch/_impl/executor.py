"""PoplarExecutor: a user's model, compiled at its first call and run on the device ever after."""

import threading

import torch
from poptorch._impl import (
    blocks,
    compile_log,
    device_pool,
    optimisers,
    outputs,
    session_options,
    torch_state,
    weights,
)
from poptorch._impl.arguments import Arguments, Signature, check_initialised
from poptorch._impl.attachment import Attachment
from poptorch._impl.batching import Batching, resolve_output_mode
from poptorch._impl.changes import ModelWatch, OptimiserWatch
from poptorch._impl.compiling import Compiling
from poptorch._impl.inspection import Inspection
from poptorch._impl.locations import user_location
from poptorch._impl.one_thread import at_once, one_thread
from poptorch._impl.optimiser_state import Record
from poptorch._impl.refused import RefusedMethods
from poptorch._impl.replica_groups import Groupings, grouped
from poptorch._impl.weight_copies import WeightCopies
from poptorch._logging import logger, set_repeat_limit
from poptorch.enums import MeanReductionStrategy, ReductionType
from poptorch.options import Options
from poptorch_core import Error

_NO_FAST = (None, ())


class PoplarExecutor(Compiling, Inspection, Attachment, WeightCopies, RefusedMethods):
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
            model = model._user_model
        options = options if options is not None else Options()
        if not isinstance(options, Options):
            raise Error(
                f"Invalid type: 'options' is of type {type(options)} but must be poptorch.Options."
            )
        self._lock = threading.RLock()
        self._executable = None
        self._user_model = model
        self._training = training
        self._is_module = isinstance(model, torch.nn.Module)
        if self._is_module:
            check_initialised(model)
        self._model = weights.shallow_copy(model) if self._is_module else model
        self._weights = weights.weights_of(model) if self._is_module else weights.Weights()
        self._weights_seen = -1
        options._freeze()
        set_repeat_limit(options.max_repeat_logs)
        self._options = options.clone()
        resolve_output_mode(self._options, training)
        self._options._freeze()
        self._groupings = Groupings(self._options.replication_factor)
        self._batching = Batching.of(self._options, training)
        if not training and self._options.Training.gradient_accumulation != 1:
            text = (
                "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as "
                "its default value (1) when running a poptorch.inferenceModel()."
            )
            if self._options.execution_strategy.NAME == "pipelined":
                text += (
                    " Use poptorch.Options().deviceIterations to process a sufficient number of "
                    "batches each run for pipelined execution instead."
                )
            raise Error(text)
        session_options.check(self._options._Popart.options)
        compile_log.check(self._options)
        replicated = self._options.replication_factor > 1
        if replicated and self._options.broadcast_buffers and any(True for _ in self._buffers()):
            raise Error(
                "PopTorch does not support broadcasting buffers. If your model is able to tolerate "
                "buffers becoming out of sync between replicas, you can disable buffer "
                "broadcasting using poptorch.Options.broadcastBuffers(False)."
            )
        self._signature = Signature(model.forward if self._is_module else model)
        self._arguments: Arguments | None = None
        # Of calls that need no preparation: the executable, shape and type of the inputs...
        self._fast: tuple | None = None
        self._fast_when_attached: list | None = None  # ...and the latter, while it is detached
        self._attached = False
        self._lease: device_pool.Lease | None = None
        self._outputs = outputs.Outputs()
        self._rebuild = None
        self._optimizer = optimizer
        self._optimiser_spec: dict | None = None
        self._optimiser_watch: OptimiserWatch | None = None
        self._model_watch = ModelWatch(model) if self._is_module else None
        self._anchored: list[torch.Tensor] = []
        self._looks_at_runs = self._options.log_cycle_count or bool(self._options.anchored_tensors)
        self._compile_seconds: float | None = None
        self._runs = 0
        if training:
            weights.wrap(model, self)

    def _buffers(self):
        return self._model.buffers() if self._is_module else ()

    def __call__(self, *args, **kwargs):
        """One step: the model's results, of the micro-batches that the output mode asks for."""
        executable, expected = self._fast or _NO_FAST
        tensors = args
        if executable is None or kwargs or len(args) != len(expected):
            executable, tensors = self._prepare(args, kwargs)
        else:
            for tensor, (shape, dtype) in zip(args, expected):  # noqa: B905  (lengths are equal)
                if (
                    type(tensor) is not torch.Tensor
                    or tensor.dtype is not dtype
                    or tensor.shape != shape
                ):
                    executable, tensors = self._prepare(args, kwargs)
                    break
        shared = self._weights
        if shared.merged_into is not None:
            shared = self._weights = shared.root()
        if self._weights_seen != shared.version:
            self._take_newest_weights(executable)
        else:
            shared.warn_about_host_changes()
        if self._training:
            self._optimiser_watch.look()
            if self._model_watch.flags_touched:
                self._model_watch.look_at_flags(self._model)
            if self._looks_at_runs:
                self._used_loss_scale = self._loss_scale()
            # Before the run: the device has the newest weights also when that is cut short.
            self._weights_seen = shared.changed_on(self)
        try:
            results = executable.run(tensors)
        except BaseException:
            self._tell_of_partial_state(executable)
            raise
        self._runs += 1
        if self._looks_at_runs:
            results = self._look_at(results)
        return self._rebuild(results)

    @one_thread
    def _take_newest_weights(self, executable) -> None:
        """Brings weights that another device, or the host, has."""
        shared = self._weights.root()
        if self._weights_seen != shared.version:
            version = shared.version
            shared.sync_host()
            executable.weights_to_device()
            self._weights_seen = version
            shared.host_is_known()

    def _tell_of_partial_state(self, executable) -> None:
        if executable.forget_partial_state():
            logger.warning(
                f"The run of {self._name()} was cut short: of the step at hand, some weights, "
                "optimiser state or buffers are updated on the device and some are not. It goes on "
                "with those; load a checkpoint, or call copyWeightsToDevice() with weights that "
                "the host has kept, to go on from a whole step"
            )

    @one_thread
    def _prepare(self, args: tuple, kwargs: dict) -> tuple:
        """Binds and checks a call's arguments; compiles when needed; gives what is to run, and the
        tensors."""
        self._check_online()
        try:
            arguments = self._signature.bind(args, kwargs)
            tensors = arguments.tensors
            if self._executable is not None:
                tensors = self._arguments.fitted(arguments)
        except (Error, AssertionError) as error:
            text = error.message if isinstance(error, Error) else str(error)
            raise type(error)(f"{text} (called at {user_location()})") from None
        if self._executable is None:
            self._compile(arguments, whole_call_positional=not kwargs)
        if not self._attached:
            self.attachToDevice()
        if self._options.synthetic_data:
            tensors = self._synthetic_inputs
        return self._executable, tensors

    def destroy(self) -> None:
        """Fetches weights and optimiser state, frees the device and unwraps the model.

        Raises poptorch.Error while another thread runs or compiles the model.
        """
        with at_once(self, "destroy"):
            if self._executable is not None:
                self._give_up(self._executable)
            self._groupings.closed = False
            self._arguments = None
            if self._training:
                weights.unwrap(self._user_model)

    def _give_up(self, executable) -> None:
        """All of it, or, where that is cut short, nothing."""
        executable.close()
        try:
            shared = self._weights.root()
            if shared.newest is self:
                shared.sync_host()
            if self._training:
                torch_state.unbind(self._optimizer, self)
            self._release()
            self._executable = None
        except BaseException:
            if self._executable is not None:
                executable.reopen()
                if self._training:
                    Record.of(self._optimizer).bind(self)
            raise

    @one_thread
    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes the values of `optimizer`, from the next step on.

        Raises poptorch.Error where a constant attribute or the optimiser's structure changed.
        """
        if not self._training:
            raise Error("[optimiser] an inferenceModel has no optimiser: use trainingModel.")
        if self._executable is not None:
            spec = self._described(optimizer)
            held = {name for name, _, _, _ in self._executable.states()}
            for slot, value in optimisers.changes(self._optimiser_spec, spec).items():
                if slot in held:  # a dampening without momentum has no slot
                    self._executable.write_state(slot, torch.tensor(value, dtype=torch.float64))
            for slot, factor in optimisers.rescaled(self._optimiser_spec, spec).items():
                if slot in held:
                    self._executable.write_state(slot, self._executable.read_state(slot) * factor)
            self._optimiser_spec = spec
            optimizer._opt_called = True
            self._optimiser_watch.look_for_new_names(optimizer)
            self._optimiser_watch.take(optimizer)
            if optimizer is not self._optimizer:
                torch_state.unbind(self._optimizer, self)
                torch_state.bind(optimizer, self)
        else:
            optimisers.kind_of(optimizer)
        self._optimizer = optimizer

    def _described(self, optimizer: torch.optim.Optimizer) -> dict:
        spec = optimisers.describe(optimizer, self._model)
        training = self._options.Training
        spec["automatic_loss_scaling"] = training.auto_loss_scaling
        is_mean = training.accumulation_and_replication_reduction_type == ReductionType.Mean
        asked = training.meanAccumulationAndReplicationReductionStrategy
        spec["running_mean"] = is_mean and (
            asked == MeanReductionStrategy.Running or optimisers.needs_running_mean(optimizer)
        )
        return spec

    @property
    def model(self):
        """The user's model."""
        return self._user_model

    @property
    def options(self) -> Options:
        """The wrapper's frozen copy of the options."""
        return self._options

    def isCompiled(self) -> bool:
        """Whether there is an executable."""
        return self._executable is not None

    def __getattr__(self, name: str):
        if name.startswith("__") or "_user_model" not in self.__dict__:
            raise AttributeError(f"'PoplarExecutor' object has no attribute '{name}'")
        found = getattr(self._user_model, name)
        if isinstance(found, torch.nn.Parameter) and not hasattr(found, "replicaGrouping"):
            return grouped(found, self._groupings)
        return found

    def __repr__(self) -> str:
        return blocks.text_with_blocks(self._model) if self._is_module else repr(self._model)

    def __reduce_ex__(self, protocol):
        raise Error(
            "[wrapper] a PoplarExecutor cannot be copied or pickled: save its model, or the "
            "state_dict() of the model, and wrap that again."
        )

    def __deepcopy__(self, memo):
        raise Error(
            "[wrapper] a PoplarExecutor cannot be copied: copy the model and wrap the copy."
        )
