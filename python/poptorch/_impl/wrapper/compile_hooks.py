"""Functions that run before and after every compilation."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import contextmanager

from torch.utils.hooks import RemovableHandle

_before: OrderedDict = OrderedDict()
_after: OrderedDict = OrderedDict()


def _register(hooks: OrderedDict, name: str, hook: Callable) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"The argument of {name} must be callable but is {hook!r}.")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def registerPreCompileHook(hook: Callable[[], None]) -> RemovableHandle:
    """Calls a function before each compilation.

    Args:
        hook: A function without arguments.

    Returns:
        A handle; its remove() unregisters the function.

    Raises:
        RuntimeError: `hook` is not callable.
    """
    return _register(_before, "registerPreCompileHook", hook)


def registerPostCompileHook(hook: Callable[[], None]) -> RemovableHandle:
    """Calls a function after each compilation, also after a failed one.

    Args:
        hook: A function without arguments.

    Returns:
        A handle; its remove() unregisters the function.

    Raises:
        RuntimeError: `hook` is not callable.
    """
    return _register(_after, "registerPostCompileHook", hook)


@contextmanager
def around_compilation():
    """Runs the registered functions before and after the body."""
    for hook in list(_before.values()):
        hook()
    try:
        yield
    finally:
        for hook in list(_after.values()):
            hook()
