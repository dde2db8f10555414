"""The start of a process, during which Ctrl-C is delayed, and a file that shows its end."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from typing import Any

from poptorch._impl.data import forked_server

_LAST = "poptorch._impl.data.fork_server_start"


@contextlib.contextmanager
def held(context: Any) -> Iterator[None]:
    """Delays Ctrl-C in the body; a process that starts there blocks it until it unblocks it.

    context: the multiprocessing context that starts the process.
    """
    # The helper processes of multiprocessing must not keep the blocked signal.
    resource_tracker.ensure_running()
    if context.get_start_method() == "forkserver":
        _start_fork_server()
    with _blocked():
        yield


def default_method() -> str:
    """Returns how this process starts processes by default, without fixing that default."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    return chosen or multiprocessing.get_all_start_methods()[0]


def preload() -> None:
    """Makes a fork server of this process import torch and poptorch before it forks."""
    server = forkserver.set_forkserver_preload.__self__  # type: ignore[attr-defined]
    preloaded = vars(server)["_preload_modules"]
    if _LAST not in preloaded:
        forkserver.set_forkserver_preload([*preloaded, _LAST])


def _start_fork_server() -> None:
    """Starts the fork server, unless it runs, so that Ctrl-C cannot interrupt its imports.

    An interrupt in the middle of torch's import ends a process with C++'s own message.
    """
    preload()
    with _blocked(), forked_server.where_possible():
        forkserver.ensure_running()


@contextlib.contextmanager
def _blocked() -> Iterator[None]:
    """Blocks SIGINT in processes that start in the body; it is raised here after the body."""
    with _unheard():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Raises a SIGINT that arrives in the body only after it.

    Blocking the signal in this thread is not enough: another thread may receive it, and Python's
    handler then runs in the main thread.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield  # the handler is not Python's, or runs in another thread
        return
    arrived = []
    try:
        signal.signal(signal.SIGINT, lambda *_: arrived.append(True))
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            signal.raise_signal(signal.SIGINT)


def file_of(pid: int) -> int | None:
    """Returns a file that is readable once the process has ended; None without kernel support."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
