"""A fork server that is a fork of this process, so that it does not import torch again.

The server of multiprocessing is a new Python, which imports torch before it forks. A fork has torch
already. It runs the same loop, with a new `__main__` and without files of this process.
"""

import contextlib
import functools
import gc
import os
import sys
import threading
import traceback
import types
from collections.abc import Iterator, Sequence
from multiprocessing import forkserver, resource_tracker, util
from typing import Any, NoReturn
from unittest import mock

# A server keeps the pages that this process writes later, so a large process starts a new Python.
LARGEST_RESIDENT = 1 << 30  # bytes


@contextlib.contextmanager
def where_possible() -> Iterator[None]:
    """Makes a fork server that starts in the body a fork of this process, if that is safe.

    A fork has only the calling thread, and locks that other threads hold stay locked in it. So
    another thread of Python prevents it.
    """
    if _is_possible():
        spawn = functools.partial(_spawn_or_fork, vars(util)["spawnv_passfds"])
        with mock.patch.object(util, "spawnv_passfds", spawn):
            yield
    else:
        yield


def _is_possible() -> bool:
    spawns = util.spawnv_passfds
    return (
        threading.active_count() == 1
        and threading.current_thread() is threading.main_thread()
        and spawns.__module__ == util.__name__  # it is not replaced
        and _resident_bytes() <= LARGEST_RESIDENT
    )


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return sys.maxsize  # unknown


def _spawn_or_fork(spawn: Any, path: str, args: Sequence[str], passfds: Sequence[int]) -> int:
    """Replaces multiprocessing.util.spawnv_passfds, `spawn`; only a fork server is forked."""
    if "multiprocessing.forkserver" not in args[-1]:
        return spawn(path, args, passfds)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # there is none, or it is closed
            stream.flush()
    pid = os.fork()
    if pid == 0:
        vars(util)["spawnv_passfds"] = spawn
        _serve(args[-1], passfds)
    return pid


def _serve(program: str, passed: Sequence[int]) -> NoReturn:
    """Runs the program of a fork server in a fork, and ends the process."""
    status = 1
    try:
        gc.freeze()  # objects of the parent are not collected, which would copy their pages
        _close_files(passed)
        _reset_multiprocessing()
        parents = sys.modules["__main__"]  # stays alive: it may own files
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(program, {"__name__": "__main__", "_parents": parents})
    except SystemExit:
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _close_files(kept: Sequence[int]) -> None:
    """Closes the parent's files, but not the standard streams.

    Their numbers stay in use, so that an object of the parent that closes its file later does not
    close a file of this process.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != nothing and number not in kept:
            with contextlib.suppress(OSError):  # the file of the list is closed
                os.fstat(number)
                os.dup2(nothing, number, inheritable=False)


def _reset_multiprocessing() -> None:
    """Gives the modules of multiprocessing the state that they have in a new process."""
    server = forkserver.set_forkserver_preload.__self__  # type: ignore[attr-defined]
    vars(server)["_lock"] = threading.Lock()  # the parent holds it
    tracker = vars(resource_tracker)["_resource_tracker"]
    vars(tracker).update(_fd=None, _pid=None)
