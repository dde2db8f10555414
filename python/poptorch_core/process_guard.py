"""Ends processes when the process that started them ends, in whatever way.

The parent of a process is not always its maker, because a fork server is the parent of all its
processes. So a process gets the identity of its maker, and watches it.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

_POLL_SECONDS = 0.25  # interval of checks if the kernel has no pidfd_open


class Process(NamedTuple):
    """Identifies a process, also if a later process has the same number."""

    pid: int
    started: int  # in ticks since the machine's start; 0: the process does not exist


def this_process() -> Process:
    """Returns the calling process."""
    return Process(os.getpid(), _started(os.getpid()))


def lives(process: Process) -> bool:
    """Returns whether a process has not ended."""
    return process.started != 0 and _started(process.pid) == process.started


def end_with(maker: Process) -> None:
    """Kills this process as soon as `maker` has ended.

    If this process leads a process group, the whole group is killed, and so are its children.
    """
    threading.Thread(target=_end_behind, args=(maker,), daemon=True, name="end_with").start()


class EndsWithMaker:
    """A worker_init_fn that ends a DataLoader's worker with the process that creates this object.

    Args:
        then: The worker_init_fn to call afterwards, or None.
    """

    def __init__(self, then: Callable[[int], Any] | None) -> None:
        self._maker, self._then = this_process(), then

    def __call__(self, worker: int) -> None:
        end_with(self._maker)
        if self._then is not None:
            self._then(worker)


def _end_behind(maker: Process) -> None:
    _wait_for_end(maker)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for_end(maker: Process) -> None:
    try:
        file = os.pidfd_open(maker.pid)
    except ProcessLookupError:
        return
    except OSError:
        while _started(maker.pid) == maker.started:
            time.sleep(_POLL_SECONDS)
        return
    try:
        if _started(maker.pid) == maker.started:
            poll = select.poll()
            poll.register(file, select.POLLIN)
            poll.poll()
    finally:
        os.close(file)


def _started(pid: int) -> int:
    """Returns when a process was started; 0 if it does not exist or has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()  # the name may be any text
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])
