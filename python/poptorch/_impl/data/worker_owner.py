"""Starts a worker process that loads data, meets it, and ends it."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import multiprocessing.connection
import os
import weakref
from typing import Any

from poptorch._impl.data import spawn
from poptorch._impl.data.ring import Ring
from poptorch._impl.data.worker import Task, run_worker
from poptorch._logging import logger_of
from poptorch_core import Error

logger = logger_of(__name__)

_NOT_STARTED = "AsynchronousDataAccessor worker thread failed to start (Check above for details)"
_UNGUARDED = (
    ". It raised the exception above. If the worker runs the program again, put the program into "
    "`if __name__ == '__main__':`."
)

# Owners whose worker still runs. They are ended at exit, so that no worker outlives the program.
_live: weakref.WeakSet[WorkerOwner] = weakref.WeakSet()


@atexit.register
def _terminate_all() -> None:
    for owner in list(_live):
        owner.terminate()


class _ItemsError(Error, AssertionError):
    """Items of the data set contain values that are not tensors."""


class WorkerOwner:
    """Has a worker process, the ring that it fills, and the pipes to it.

    The subclass sets the data set, the task, the context and `_early_preload` before _start().
    """

    _dataset: Any
    _early_preload: bool
    _process: Any  # a process of multiprocessing; None after its end
    _worker_file: int | None  # readable once the worker has ended
    _task: Task
    _context: Any
    _position: dict[str, Any] | None

    def _begin(self) -> None:
        """Initialises what belongs to the ring of a worker."""
        self._epoch_requested = False
        self._ended = 0  # epochs
        self._is_inside = False  # True after an epoch's first item, until its end
        self._untouched = True  # no item has arrived
        self._held = False  # True while the user reads a slot
        self._slot = 0
        self._taken = 0  # items of the epoch to which `_position` belongs
        self._is_new_epoch = True
        self._arrived: list[dict[str, Any]] = []  # positions, not yet reached

    def _start(self) -> None:
        self._begin()
        self._connection, theirs = self._context.Pipe()
        self._positions, positions = self._context.Pipe(duplex=False)
        try:
            with spawn.held(self._context):
                # The worker is not a daemon, because the data set may be a DataLoader with workers.
                self._process = self._context.Process(
                    target=run_worker, args=(self._task, self._dataset, theirs, positions)
                )
                self._process.start()
                _live.add(self)
        except RuntimeError as error:  # from multiprocessing: no __main__ guard
            self._process = None
            said = str(error).strip().splitlines()[0].strip()
            raise Error(
                f"{_NOT_STARTED}: the main module starts it while it is imported. Put the program "
                f"into `if __name__ == '__main__':`, or use SharingStrategy.Fork. ({said})"
            ) from error
        except Exception as error:  # pickle may raise any exception
            self._process = None
            raise Error(
                f"{_NOT_STARTED}: the data set cannot be sent to it ({error}). Define its class at "
                "the top of a module, or use SharingStrategy.Fork."
            ) from error
        theirs.close()
        positions.close()
        self._worker_file = spawn.file_of(self._process.pid)
        failure = self._meet_worker()
        if failure is not None:
            self.terminate()
            raise failure
        logger.debug(f"AsynchronousDataAccessor parent process: {os.getpid()}")
        logger.debug(f"AsynchronousDataAccessor worker process: {self._process.pid}")
        if self._early_preload:
            self._request_epoch()

    def _meet_worker(self) -> Error | None:
        """Receives the worker's description of an item, and sends it a ring.

        Returns:
            The error, if the worker has failed.
        """
        try:
            kind, detail, shapes, position = self._description()
            if kind == "failed":
                return (_ItemsError if shapes else Error)(f"{_NOT_STARTED}: {detail}")
            while self._positions.poll():  # of what the worker has loaded ahead
                self._positions.recv()
            if self._task.shapes is None:
                self._structure, self._position = detail, position
                self._task = dataclasses.replace(self._task, shapes=shapes, structure=detail)
            self._ring = Ring(self._task.buffer_size, shapes)
            self._connection.send("go on")
            self._ring.send(self._connection, self._process.pid)
        except MemoryError as error:
            return Error(f"{_NOT_STARTED}: {error}")
        except (EOFError, OSError):  # the worker has ended
            self._process.join(timeout=1.0)
            hint = _UNGUARDED if self._process.exitcode == 1 else ""  # it raised an exception
            return Error(f"{_NOT_STARTED}: exit code {self._process.exitcode}{hint}")
        self._free, self._filled, self._go = self._ring.semaphores
        return None

    def _description(self) -> Any:
        """Receives the worker's description of an item, or its error.

        The worker may have to send positions before, and wait until they are received.
        """
        files = [self._connection, self._positions]
        while self._connection not in multiprocessing.connection.wait(files):
            self._positions.recv()
        return self._connection.recv()

    def terminate(self) -> None:
        """Ends the worker process. Further calls have no effect."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):  # the worker has ended
            self._connection.send("stop")
        process.join(timeout=1.0)
        if process.is_alive():
            process.terminate()
            process.join(timeout=1.0)
        if process.is_alive():
            process.kill()
            process.join()
        self._process = None
        self._connection.close()
        self._positions.close()
        if self._worker_file is not None:
            os.close(self._worker_file)
        _live.discard(self)

    def _request_epoch(self) -> None:
        self._epoch_requested = True
        self._go.release()

    def _release_held(self) -> None:
        if self._held:
            self._held = False
            self._free.release()

    def _death(self) -> str:
        """Returns the error text for a worker that has ended: its last message or exit code."""
        reason = "terminate() was called"
        if self._process is not None:
            self._process.join(timeout=1.0)
            reason = f"exit code {self._process.exitcode}"
            try:
                if self._connection.poll():
                    reason = self._connection.recv()[1]
            except (EOFError, OSError):
                pass  # killed before it could send a message
        return f"An error occurred in the data fetcher: {reason}"
