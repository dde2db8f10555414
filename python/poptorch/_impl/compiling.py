"""When a wrapper compiles, with what, and what it remembers of it."""

import time

from poptorch import _native, optim
from poptorch._impl import blocks, compile_log, hooks, outputs, torch_state, weights
from poptorch._impl.arguments import Arguments, check_host, check_weights, warn_about_dicts
from poptorch._impl.changes import OptimiserWatch
from poptorch._impl.compile_options import (
    Line,
    anchor_lines,
    execution_lines,
    group_lines,
    host_options,
    optimiser_lines,
)
from poptorch._impl.one_thread import one_thread
from poptorch._impl.progress import Progress
from poptorch._logging import logger
from poptorch.enums import ConnectionType
from poptorch_core import Error


class Compiling:
    """Mixed into PoplarExecutor, whose attributes it reads and writes."""

    @one_thread
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
        if self._is_module:
            check_weights(self._model)
        if self._training:
            outputs.explain_backward()
            weights.wrap_again(self._user_model, self)
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

        lines = self._execution_lines(names)
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
                    lines,
                    host_options(self._options),
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
        self._arguments = arguments
        self._weights_seen = self._weights.root().version
        self._weights.root().host_is_known()
        self._executable = executable
        try:
            self._begin(arguments, whole_call_positional)
        except BaseException:
            self._executable = None
            raise
        if self._options.connection_type == ConnectionType.Always:
            self.attachToDevice()
        logger.info(f"Compiled {self._name()} in {self._compile_seconds:.2f} s")
        compile_log.write(self)

    def _begin(self, arguments: Arguments, whole_call_positional: bool) -> None:
        """What a new executable needs to run."""
        self._check_anchors()
        self._groupings.closed = True
        self._runs = 0
        if self._training:
            relaxed = self._options.relax_optimizer_attributes_checks
            self._optimizer._opt_called = True  # torch's schedulers ask for it
            self._optimiser_watch = OptimiserWatch(self._optimizer, relaxed)
            self._model_watch.compiled(self._model)
            torch_state.bind(self._optimizer, self)
        if self._options.synthetic_data:
            self._synthetic_inputs = self._make_synthetic_inputs(arguments.tensors)
        self._fast_when_attached = None
        if whole_call_positional and not self._options.synthetic_data:
            self._fast_when_attached = arguments.all_tensors()

    def _execution_lines(self, input_names: list[str]) -> list[Line]:
        return [
            *execution_lines(self._options, self._training, self._device_profile()),
            *group_lines(self._groupings.of(self._model)),
            *anchor_lines(self._anchor_requests(input_names)),
            *optimiser_lines(self._optimiser_spec),
        ]

    def _name(self) -> str:
        kind = "training" if self._training else "inference"
        what = type(self._model).__name__ if self._is_module else repr(self._model)
        what = self._options.model_name or what
        return f"{what} for {kind}"
