"""How the compilations of a wrapper begin and end, each whole or not at all."""

from poptorch import optim
from poptorch._impl import attachment, compile_log, compiling, outputs, torch_state, weights
from poptorch._impl.arguments import Arguments
from poptorch._impl.compiled import Compiled
from poptorch._impl.optimiser_state import Record
from poptorch._logging import logger
from poptorch.enums import ConnectionType


def begin(executor, arguments: Arguments, *, positional: bool) -> Compiled:
    """Compiles for calls like the one that had these arguments, by position alone or not."""
    wrapped, shared = executor._wrapped, executor._weights.root()
    compiling.check(wrapped, arguments)
    if wrapped.training:
        outputs.explain_backward()
        weights.wrap_again(wrapped.user_model, executor)
        if executor._optimizer is None:
            executor._optimizer = optim.SGD(wrapped.model.parameters(), lr=0.01)
    shared.sync_host()
    compiled = compiling.compiled_for(
        wrapped, executor._optimizer, arguments, positional=positional
    )
    shared = shared.root()
    compiled.device.weights_seen = shared.version
    shared.host_is_known()
    executor._compiled = compiled
    if wrapped.training:
        try:
            torch_state.bind(executor._optimizer, executor)
        except BaseException:
            executor._compiled = None
            raise
        executor._optimizer._opt_called = True  # torch's schedulers ask for it
    wrapped.groupings.closed = True
    if executor._model_watch is not None:
        executor._model_watch.compiled(wrapped.model)
    if wrapped.options.connection_type == ConnectionType.Always:
        attachment.attach(compiled, shared, has_weights=True)
    logger.info(f"Compiled {wrapped.name} in {compiled.seconds:.2f} s")
    compile_log.write(compiled, wrapped.name)
    return compiled


def end(executor) -> None:
    """Brings weights and optimiser state to the host, and frees the device."""
    if executor._compiled is not None:
        _give_up(executor, executor._compiled)
    executor._wrapped.groupings.closed = False
    if executor._model_watch is not None:
        executor._model_watch.destroyed()
    if executor._wrapped.training:
        weights.unwrap(executor._wrapped.user_model)


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
