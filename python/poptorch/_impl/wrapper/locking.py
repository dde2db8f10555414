"""A lock per wrapper for the methods that change it; the core serialises the steps themselves."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch_core import Error


def one_thread(method: Callable) -> Callable:
    """Runs a wrapper's method with the wrapper's lock; Ctrl-C interrupts the wait for it."""

    @functools.wraps(method)
    def alone(self, *arguments, **keywords):
        with wrapper_state(self).lock:
            return method(self, *arguments, **keywords)

    return alone


@contextmanager
def at_once(wrapper: Wrapper, what: str) -> Iterator[None]:
    """Holds the lock of a wrapper in the body.

    Raises poptorch.Error if another thread has it: that may compile or wait for a device.
    """
    if not wrapper_state(wrapper).lock.acquire(blocking=False):
        raise Error(
            f"[{what}] another thread is compiling the model or changing its wrapper. Wait for "
            "that thread first."
        )
    try:
        yield
    finally:
        wrapper_state(wrapper).lock.release()
