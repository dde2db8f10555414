"""Processes that end with the one that made them, however that one ends.

The parent of a process is not always its maker: a fork server's children are all its own. So a
process is told who made it, and watches that one.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

_POLL_SECONDS = 0.25  # where the kernel has no file descriptors of processes


class Process(NamedTuple):
    """A process, which is not mistaken for a later one of the same number."""

    pid: int
    started: int  # in ticks since the machine's start; 0: there is no such process


def this_process() -> Process:
    """The one that calls."""
    return Process(os.getpid(), _started(os.getpid()))


def lives(process: Process) -> bool:
    """Whether it has not ended."""
    return process.started != 0 and _started(process.pid) == process.started


def end_with(maker: Process) -> None:
    """From here on, this process is killed when `maker` has ended.

    With its process group, if it leads one: so its own children end as well.
    """
    threading.Thread(target=_end_behind, args=(maker,), daemon=True, name="end_with").start()


class EndsWithMaker:
    """A worker_init_fn that ends a DataLoader's worker with the process that makes this object."""

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
    """When a process was started; 0 for none, and for one that has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()  # behind the name, which may be any
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])
