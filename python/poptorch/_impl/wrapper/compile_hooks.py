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
    """Calls `hook()` before each compilation, until the handle's remove()."""
    return _register(_before, "registerPreCompileHook", hook)


def registerPostCompileHook(hook: Callable[[], None]) -> RemovableHandle:
    """Calls `hook()` after each compilation, also a failed one, until the handle's remove()."""
    return _register(_after, "registerPostCompileHook", hook)


@contextmanager
def around_compilation():
    """Runs the hooks around the body."""
    for hook in list(_before.values()):
        hook()
    try:
        yield
    finally:
        for hook in list(_after.values()):
            hook()
