"""Begin and end of a wrapper's compilations; a failure leaves the wrapper's state unchanged."""

from collections.abc import Callable
from typing import Any

from poptorch import optim
from poptorch._impl.files.executable import Saved
from poptorch._impl.inspection import written_reports
from poptorch._impl.optimisers import torch_state, updates
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.weights import members
from poptorch._impl.wrapper import (
    compilation,
    compile_log,
    device_binding,
    garbage,
    model_classes,
    results,
    unwrapped_models,
)
from poptorch._impl.wrapper.call_arguments import Arguments
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.spec import Wrapped
from poptorch._impl.wrapper.state import Wrapper, WrapperState, wrapper_state
from poptorch._logging import logger_of

logger = logger_of(__name__)


def traced_model(wrapper: Wrapper) -> Callable:
    """Returns the copy of the model that the wrapper traces.

    In training it has a class like the wrapped model's, except during a trace.
    """
    wrapped = wrapper_state(wrapper).wrapped
    if wrapped.training and model_classes.is_wrapped(wrapped.user_module):
        if not model_classes.is_wrapped(wrapped.trained_model):
            model_classes.wrap_class(wrapped.trained_model, wrapper)
    return wrapped.model


def begin(wrapper: Wrapper, arguments: Arguments, *, positional: bool) -> Compiled:
    """Compiles for calls with arguments like these; `positional`: none was a keyword argument."""

    def compile(wrapped: Wrapped, optimizer) -> Compiled:
        with members.listed_once():
            compilation.check(wrapped, arguments)
            separate = optimizer is not None and updates.needs_separate_steps(optimizer, wrapper)
        return compilation.compiled_for(
            wrapped, optimizer, arguments, positional=positional, separate_steps=separate
        )

    compiled, wrapped = _made(wrapper, compile, attaches=True)
    logger.info(f"Compiled {wrapped.name} in {compiled.seconds:.2f} s")
    compile_log.write(compiled, wrapped.name)
    return compiled


def load(wrapper: Wrapper, saved: Saved, *, with_state: bool) -> None:
    """Like begin(), but loads a file instead of compiling.

    with_state: the wrapper comes from the file too, and acquires its device at the first call. Else
    the device gets the weights of the existing wrapper.
    """

    def read(wrapped: Wrapped, optimizer) -> Compiled:
        return saved.compiled(wrapped, optimizer, with_state=with_state)

    compiled, wrapped = _made(wrapper, read, attaches=not with_state)


@garbage.kept()
@members.kept()
def _made(
    wrapper: Wrapper, make: Callable[[Wrapped, Any], Compiled], *, attaches: bool
) -> tuple[Compiled, Wrapped]:
    """Calls `make`, stores its result in the wrapper, and attaches it to a device.

    Before that, copies the newest weights to the host and creates a missing optimiser.
    """
    state = wrapper_state(wrapper)
    wrapped, held, optimizer = state.wrapped, state.weights, state.optimizer
    folder = written_reports.folder_of(wrapped.options, training=wrapped.training)
    results.explain_backward()
    if wrapped.training:
        with members.listed_once():
            model_classes.wrap_again(wrapped.user_module, wrapper)
            model_classes.unwrap_class(wrapped.trained_model)  # forward may look at its class
            if optimizer is None:
                optimizer = optim.SGD(wrapped.trained_model.parameters(), lr=0.01)
                state.optimizer = optimizer
            Record.of(optimizer).join(wrapper)
            torch_state.unbind_from_others(optimizer, wrapper)
    held.root().sync_host()
    compiled = make(wrapped, optimizer if wrapped.training else None)
    compiled.executable.set_name(wrapped.name)
    written_reports.begin(wrapped, compiled, folder)
    shared = held.root()
    compiled.device.weights_seen = shared.version
    shared.host_is_known()
    # Before state.compiled is set: if no device is available, the next call compiles again.
    if attaches and device_binding.is_always_attached(wrapped.options):
        device_binding.attach(compiled, shared, has_weights=True)
    state.compiled = compiled
    if optimizer is not None and wrapped.training:
        try:
            with members.listed_once():
                torch_state.bind(optimizer, wrapper)
        except BaseException:
            state.compiled = None
            device_binding.release(compiled)
            raise
        updates.mark_as_stepped(optimizer)
    wrapped.groupings.closed = True
    if state.watch is not None:
        state.watch.compiled(wrapped.trained_model)
    return compiled, wrapped


@garbage.kept()
@members.kept()
@members.listed_once()
def end(wrapper: Wrapper) -> None:
    """Copies weights and optimiser state to the host, and frees the device."""
    state = wrapper_state(wrapper)
    if state.compiled is not None:
        _give_up(wrapper, state, state.compiled)
    state.wrapped.groupings.closed = False
    if state.watch is not None:
        state.watch.destroyed()
    if state.wrapped.training:
        model_classes.unwrap(state.wrapped.user_module)
        model_classes.unwrap_class(state.wrapped.trained_model)
        unwrapped_models.forget(state.wrapped.user_module)


def _give_up(wrapper: Wrapper, state: WrapperState, compiled: Compiled) -> None:
    """Releases the compiled model; an interruption restores it."""
    optimizer = state.optimizer if state.wrapped.training else None
    compiled.executable.close()
    try:
        shared = state.weights.root()
        if shared.newest is wrapper:
            shared.sync_host()
        if optimizer is not None:
            torch_state.unbind(optimizer, wrapper)
            Record.of(optimizer).names.leave(wrapper)
        device_binding.release(compiled)
        state.compiled = None
    except BaseException:
        if state.compiled is not None:
            compiled.executable.reopen()
            if optimizer is not None and Record.of(optimizer).wrapper is None:
                Record.of(optimizer).bind(wrapper)
        raise
