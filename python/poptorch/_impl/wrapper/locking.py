"""One thread at a time in what changes a wrapper; the steps themselves take turns in the core."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from poptorch._impl.wrapper.state import Wrapper, wrapper_state
from poptorch_core import Error


def one_thread(method: Callable) -> Callable:
    """A method that waits, as Ctrl-C can end, while another thread is in one of the same object.

    The object is a wrapper, whose state has the lock.
    """

    @functools.wraps(method)
    def alone(self, *arguments, **keywords):
        with wrapper_state(self).lock:
            return method(self, *arguments, **keywords)

    return alone


@contextmanager
def at_once(wrapper: Wrapper, what: str) -> Iterator[None]:
    """Keeps other threads out of a wrapper without waiting for one that is inside.

    Raises poptorch.Error where there is one: it may compile, or wait for a device, for long.
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
