"""Ctrl-C while a process is started: it is heard once the process has all that it is given."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from typing import Any


@contextlib.contextmanager
def held(context: Any) -> Iterator[None]:
    """Ctrl-C waits, and a process that is started meanwhile does not hear it before it says so.

    context: of multiprocessing, the one that starts it.
    """
    # The helpers that multiprocessing starts have rules of their own for it.
    resource_tracker.ensure_running()
    if context.get_start_method() == "forkserver":
        forkserver.ensure_running()
    with _unheard():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the process inherits it
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """What arrives meanwhile is raised at the end.

    A blocked signal is not enough: any other thread of the program may take it, and Python's
    handler then runs in the main one.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield  # not Python's, or run elsewhere
        return
    arrived = []
    try:
        signal.signal(signal.SIGINT, lambda *_: arrived.append(True))
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            signal.raise_signal(signal.SIGINT)
