"""How the compilations of a wrapper begin and end, each whole or not at all."""

from collections.abc import Callable
from typing import Any

from poptorch import optim
from poptorch._impl import (
    attachment,
    compile_log,
    compiling,
    outputs,
    reporting,
    torch_state,
    wrapped_classes,
)
from poptorch._impl.arguments import Arguments
from poptorch._impl.compiled import Compiled
from poptorch._impl.exports import Saved
from poptorch._impl.optimiser_state import Record
from poptorch._impl.wrapped import Wrapped
from poptorch._logging import logger


def begin(executor, arguments: Arguments, *, positional: bool) -> Compiled:
    """Compiles for calls like the one that had these arguments, by position alone or not."""

    def compile(wrapped: Wrapped, optimizer) -> Compiled:
        compiling.check(wrapped, arguments)
        return compiling.compiled_for(wrapped, optimizer, arguments, positional=positional)

    compiled, wrapped = _made(executor, compile, attaches=True)
    logger.info(f"Compiled {wrapped.name} in {compiled.seconds:.2f} s")
    compile_log.write(compiled, wrapped.name)
    return compiled


def load(executor, saved: Saved, *, with_state: bool) -> None:
    """As begin(), of a file in the place of a compilation.

    with_state: the wrapper was made of the file too, and takes its device at the first call. Else
    the device gets the wrapper's own weights.
    """

    def read(wrapped: Wrapped, optimizer) -> Compiled:
        return saved.compiled(wrapped, optimizer, with_state=with_state)

    compiled, wrapped = _made(executor, read, attaches=not with_state)


def _made(
    executor, make: Callable[[Wrapped, Any], Compiled], *, attaches: bool
) -> tuple[Compiled, Wrapped]:
    """What `make` gives is the wrapper's, on a device with the host's weights.

    Before, the host gets the newest weights, and a model for training an optimiser.
    """
    wrapped, held, optimizer = executor._wrapped, executor._weights, executor._optimizer
    folder = reporting.folder_of(wrapped.options, training=wrapped.training)
    outputs.explain_backward()
    if wrapped.training:
        wrapped_classes.wrap_again(wrapped.user_model, executor)
        if optimizer is None:
            optimizer = optim.SGD(wrapped.model.parameters(), lr=0.01)
            executor._optimizer = optimizer
    held.root().sync_host()
    compiled = make(wrapped, optimizer if wrapped.training else None)
    compiled.executable.set_name(wrapped.name)
    reporting.begin(wrapped, compiled, folder)
    shared = held.root()
    compiled.device.weights_seen = shared.version
    shared.host_is_known()
    # Before there is anything compiled: where no device is to be had, the next call begins anew.
    if attaches and attachment.is_always_attached(wrapped.options):
        attachment.attach(compiled, shared, has_weights=True)
    executor._compiled = compiled
    if wrapped.training:
        try:
            torch_state.bind(optimizer, executor)
        except BaseException:
            executor._compiled = None
            attachment.release(compiled)
            raise
        optimizer._opt_called = True  # torch's schedulers ask for it
    wrapped.groupings.closed = True
    if (watch := executor._model_watch) is not None:
        watch.compiled(wrapped.model)
    return compiled, wrapped


def end(executor) -> None:
    """Brings weights and optimiser state to the host, and frees the device."""
    if executor._compiled is not None:
        _give_up(executor, executor._compiled)
    executor._wrapped.groupings.closed = False
    if executor._model_watch is not None:
        executor._model_watch.destroyed()
    if executor._wrapped.training:
        wrapped_classes.unwrap(executor._wrapped.user_model)


def _give_up(executor, compiled: Compiled) -> None:
    """All of it, or, where that is cut short, nothing."""
    training = executor._wrapped.training
    compiled.executable.close()
    try:
        shared = executor._weights.root()
        if shared.newest is executor:
            shared.sync_host()
        if training:
            torch_state.unbind(executor._optimizer, executor)
        attachment.release(compiled)
        executor._compiled = None
    except BaseException:
        if executor._compiled is not None:
            compiled.executable.reopen()
            if training:
                Record.of(executor._optimizer).bind(executor)
        raise
