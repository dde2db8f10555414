"""PoplarExecutor: a user's model, compiled at its first call and run on the device ever after."""

import time

import torch
from poptorch import _native, optim
from poptorch._impl import (
    blocks,
    compile_log,
    device_pool,
    hooks,
    optimisers,
    outputs,
    session_options,
    torch_state,
    weights,
)
from poptorch._impl.arguments import Arguments, Signature, check_host, warn_about_dicts
from poptorch._impl.attachment import Attachment
from poptorch._impl.batching import Batching, resolve_output_mode
from poptorch._impl.changes import ModelWatch, OptimiserWatch
from poptorch._impl.compile_options import compile_options
from poptorch._impl.inspection import Inspection
from poptorch._impl.locations import user_location
from poptorch._impl.progress import Progress
from poptorch._impl.refused import RefusedMethods
from poptorch._impl.replica_groups import Groupings, grouped
from poptorch._impl.weight_copies import WeightCopies
from poptorch._logging import logger, set_repeat_limit
from poptorch.enums import ConnectionType, MeanReductionStrategy, ReductionType
from poptorch.options import Options
from poptorch_core import Error


class PoplarExecutor(Inspection, Attachment, WeightCopies, RefusedMethods):
    """Made by poptorch.trainingModel and poptorch.inferenceModel.

    The call takes the model's arguments, with the batching factors of the options in the first
    dimension, and gives the model's results. What this class lacks is looked up in the model.
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
        self._executable = None
        self._user_model = model
        self._training = training
        self._is_module = isinstance(model, torch.nn.Module)
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
        replicated = self._options.replication_factor > 1
        if replicated and self._options.broadcast_buffers and any(True for _ in self._buffers()):
            raise Error(
                "PopTorch does not support broadcasting buffers. If your model is able to tolerate "
                "buffers becoming out of sync between replicas, you can disable buffer "
                "broadcasting using poptorch.Options.broadcastBuffers(False)."
            )
        self._signature = Signature(model.forward if self._is_module else model)
        self._arguments: Arguments | None = None
        # Shape and type of the inputs of calls that need no preparation: now, and once attached.
        self._fast_inputs: list | None = None
        self._fast_when_attached: list | None = None
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

    # --- running ---------------------------------------------------------------------------------
    def __call__(self, *args, **kwargs):
        """One step: the model's results, of the micro-batches that the output mode asks for."""
        fast = self._fast_inputs
        tensors = args
        if fast is None or kwargs or len(args) != len(fast):
            tensors = self._prepare(args, kwargs)
        else:
            for tensor, (shape, dtype) in zip(args, fast):  # noqa: B905  (lengths are equal)
                if (
                    type(tensor) is not torch.Tensor
                    or tensor.dtype is not dtype
                    or tensor.shape != shape
                ):
                    tensors = self._prepare(args, kwargs)
                    break
        shared = self._weights
        if shared.merged_into is not None:
            shared = self._weights = shared.root()
        if self._weights_seen != shared.version:
            shared.sync_host()
            self._executable.weights_to_device()
            self._weights_seen = shared.version
            shared.host_is_known()
        else:
            shared.warn_about_host_changes()
        if self._training:
            self._optimiser_watch.look()
            if self._model_watch.flags_touched:
                self._model_watch.look_at_flags(self._model)
        if self._looks_at_runs and self._training:
            self._used_loss_scale = self._loss_scale()
        results = self._executable.run(tensors)
        self._runs += 1
        if self._training:
            self._weights_seen = shared.changed_on(self)
        if self._looks_at_runs:
            results = self._look_at(results)
        return self._rebuild(results)

    def _prepare(self, args: tuple, kwargs: dict) -> list[torch.Tensor]:
        """Binds and checks a call's arguments; compiles when needed; gives the tensors."""
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
            return self._synthetic_inputs
        return tensors

    # --- compiling -------------------------------------------------------------------------------
    def compile(self, *args, **kwargs) -> None:
        """Traces and compiles for arguments like these, without running."""
        if self._executable is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled")
            return
        self._compile(self._signature.bind(args, kwargs), whole_call_positional=not kwargs)

    def _compile(self, arguments: Arguments, whole_call_positional: bool) -> None:
        names = [node.name for node in arguments.tensor_nodes()]
        for name, tensor in zip(names, arguments.tensors, strict=True):
            check_host(name, tensor)
            self._batching.check(name, tensor)
            if 0 in tensor.shape:
                raise Error(
                    f"Zero-sized tensors are unsupported (Got shape {list(tensor.shape)}): input "
                    f"{name}."
                )
        warn_about_dicts(arguments)
        if self._training:
            outputs.explain_backward()
            if not weights.is_wrapped(self._user_model):  # destroyed since
                weights.wrap(self._user_model, self)
            if self._optimizer is None:
                self._optimizer = optim.SGD(self._model.parameters(), lr=0.01)
            self._optimiser_spec = self._described(self._optimizer)
            if self._optimiser_spec["running_mean"]:
                self._options.Training._set_running_mean()
        self._weights.root().sync_host()
        self._outputs = outputs.Outputs()

        def call(tensors):
            positional, keyword = arguments.rebuild(iter(tensors))
            with blocks.recording(self._options.execution_strategy, self._model):
                return self._outputs.record(self._model(*positional, **keyword))

        made_options = self._compile_options(names)
        progress = Progress(self._options.show_compilation_progress_bar)
        start = time.perf_counter()
        finished = False
        try:
            stand_ins = self._groupings.stand_ins(self._model)
            with hooks.around_compilation(), stand_ins as held_by:
                executable = _native.compile_model(
                    call,
                    self._model if self._is_module else None,
                    [self._batching.micro_batch(tensor) for tensor in arguments.tensors],
                    made_options,
                    self._optimiser_spec,
                    location_excludes=self._options.source_location_excludes,
                    module_scopes=not self._options.disable_module_namescope,
                    progress=progress,
                    held_by=held_by,
                )
            finished = True
        finally:
            progress.close(finished)
        self._compile_seconds = time.perf_counter() - start
        self._outputs.connect(executable.outputs)
        self._rebuild = self._outputs.rebuilder()
        self._executable = executable
        self._groupings.closed = True
        self._arguments = arguments
        self._weights_seen = self._weights.root().version
        self._weights.root().host_is_known()
        try:
            self._check_anchors()
        except Error:
            self._executable = None
            raise
        if self._training:
            relaxed = self._options.relax_optimizer_attributes_checks
            self._optimizer._opt_called = True  # torch's schedulers ask for it
            self._optimiser_watch = OptimiserWatch(self._optimizer, relaxed)
            self._model_watch.compiled(self._model)
            torch_state.bind(self._optimizer, self)
        if self._options.synthetic_data:
            self._synthetic_inputs = self._make_synthetic_inputs(arguments.tensors)
        if whole_call_positional and not self._options.synthetic_data:
            self._fast_when_attached = arguments.all_tensors()
        if self._options.connection_type == ConnectionType.Always:
            self.attachToDevice()
        logger.info(f"Compiled {self._name()} in {self._compile_seconds:.2f} s")
        compile_log.write(self)

    def _compile_options(self, input_names: list[str]) -> dict:
        made = compile_options(self._options, self._training)
        made["device"] = self._device_profile()
        made["anchors"] = self._anchor_requests(input_names)
        made["replica_groups"] = self._groupings.of(self._model)
        return made

    def _name(self) -> str:
        kind = "training" if self._training else "inference"
        what = type(self._model).__name__ if self._is_module else repr(self._model)
        what = self._options.model_name or what
        return f"{what} for {kind}"

    # --- the end --------------------------------------------------------------------------------
    def destroy(self) -> None:
        """Fetches weights and optimiser state, frees the device and unwraps the model."""
        shared = self._weights.root()
        if shared.newest is self:
            shared.sync_host()
        if self._executable is not None and self._training:
            torch_state.unbind(self._optimizer, self)
        self._release()
        self._executable = None
        self._groupings.closed = False
        self._arguments = None
        self._fast_inputs = None
        self._runs = 0
        if self._training:
            weights.unwrap(self._user_model)

    # --- optimiser -------------------------------------------------------------------------------
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

    # --- inspection ------------------------------------------------------------------------------
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
