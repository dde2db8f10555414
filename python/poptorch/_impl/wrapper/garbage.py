"""Delays Python's search for garbage during a compilation."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Delays the automatic search for cycles of objects until the end of the body.

    A compilation makes many objects that live until its end, and each search visits all of them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
