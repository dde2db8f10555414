"""Loads data in a worker process, ahead of the model, through a ring of shared-memory slots.

The worker fills slots in order, and the parent reads them in order. Two semaphores count free and
filled slots; a row of shared integers describes the content of a slot. Nothing is pickled after the
start. Memory and semaphores have no names, so they disappear when both processes have ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch.multiprocessing as torch_mp
from poptorch._impl.data import renewal
from poptorch._impl.data.renewal import Program, Successor
from poptorch._impl.data.worker import Slot, Task
from poptorch._impl.data.worker_owner import WorkerOwner
from poptorch._impl.pytree.structures import unflatten
from poptorch._logging import logger_of
from poptorch.enums import SharingStrategy
from poptorch_core import Error, _core
from poptorch_core.process_guard import this_process

logger = logger_of(__name__)

_POLL_SECONDS = 0.1  # interval of checks that the worker is alive, if the kernel does not notify
_START_METHODS = {
    SharingStrategy.SharedMemory: "spawn",
    SharingStrategy.FileSystem: "spawn",
    SharingStrategy.Fork: "fork",
    SharingStrategy.ForkServer: "forkserver",
}


class AsynchronousDataAccessor(WorkerOwner):
    """Iterates over `dataset` while a worker process loads ahead.

    Each pass over the accessor is one epoch and ends with StopIteration. The tensors of an item are
    views of the ring: they are valid until the next item is requested.

    Args:
        dataset: An iterable whose items are tensors, or tuples, lists or dicts of them, nested in
            any way.
        buffer_size: The number of slots of the ring.
        miss_sleep_time_in_ms: Kept for compatibility; a waiting reader sleeps on a semaphore.
        load_indefinitely: The worker continues with the next epoch before it is requested.
        early_preload: The first epoch is loaded before the first iteration starts.
        sharing_strategy: How the worker process is started.
        rebatched_size: The rows of an item; smaller batches of the data set are joined.

    Raises:
        AssertionError: `rebatched_size` is 1 or less, or is None for a DataLoader that keeps its
            last rows. `buffer_size` is 0 or less. The worker died during an iteration.
        poptorch.Error: The data set is empty or fails, or is a DataLoader that has an accessor. If
            items contain values that are not tensors, the error is an AssertionError, too.
    """

    def __init__(
        self,
        dataset: Any,
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
        rebatched_size: int | None = None,
        *,
        _keep_partial: bool = False,
    ) -> None:
        if getattr(dataset, "_accessor", None) is not None:
            raise Error(
                "The DataLoader already has an AsynchronousDataAccessor: iterate over the "
                "DataLoader itself, or give it mode=DataLoaderMode.Sync."
            )
        if rebatched_size is not None and rebatched_size <= 1:
            raise AssertionError(
                f"rebatched_size must be None or greater than 1 but is {rebatched_size}"
            )
        if rebatched_size is None and getattr(dataset, "_keeps_partial", False):
            raise AssertionError(
                "The 'drop_last=False' option from the DataLoader only works if 'rebatched_size' "
                "is specified too."
            )
        if buffer_size <= 0:
            raise AssertionError(f"buffer_size must be 1 or more but is {buffer_size}")
        del miss_sleep_time_in_ms
        self._dataset = dataset
        self._load_indefinitely = load_indefinitely
        self._early_preload = early_preload
        self._process: Any = None  # a process of multiprocessing
        self._worker_file: int | None = None  # readable once the worker has ended
        self._task = Task(this_process(), logger.level, buffer_size, rebatched_size, _keep_partial)
        self._context: Any = torch_mp.get_context(_START_METHODS[SharingStrategy(sharing_strategy)])
        self._position: dict[str, Any] | None = None
        self._resumes: dict[str, Any] | None = None  # the position that the worker began with
        self._start()
        self._program = Program(dataset)

    def _follow_program(self) -> None:
        """Gives the worker the objects of the program if that has changed them.

        The worker discards what it has loaded ahead. Call it at the beginning of an epoch.
        """
        if self._process is None or not self._program.has_changed():
            return
        logger.debug("AsynchronousDataAccessor: the program has changed the data set or sampler")
        resumes = self._resumes if self._untouched else None
        successor = self._program.successor(self._position, untouched=self._untouched)
        self._dataset = successor.dataset
        if resumes is not None:
            self.restart(resumes)
        elif not self._renew(successor):
            self.terminate()
            self._task = dataclasses.replace(self._task, shapes=None)
            self._start()
        self._program.note()

    def _renew(self, successor: Successor) -> bool:
        """Sends the worker its data set; returns False if that is impossible."""
        try:
            message = renewal.dumps(successor)
        except Exception:  # the data set's classes may raise anything
            return False
        if self._connection.poll() or not self._process.is_alive():
            return False  # the worker has failed
        self._release_held()
        try:
            self._connection.send(message)
            self._begin()
            self._task = dataclasses.replace(self._task, shapes=None)
            failure = self._meet_worker()
        except OSError:
            return False
        except BaseException:
            self.terminate()
            raise
        if failure is None and self._early_preload:
            self._request_epoch()
        return failure is None

    def position(self) -> dict[str, Any]:
        """Returns the position of the data set after the items that were taken.

        The data set must be one that reports its position.

        Raises:
            poptorch.Error: The data set cannot report its position.
        """
        assert self._position is not None
        if "refused" in self._position:
            raise Error(self._position["refused"])
        return {**self._position, "taken": self._taken}

    def restart(self, position: dict[str, Any]) -> None:
        """Starts a new worker, which continues at the given position of the data set.

        Args:
            position: The number of the batch to continue with.
        """
        self.terminate()
        self._dataset = self._program.successor(None, untouched=True).dataset
        self._dataset.take_up(position)
        self._start()
        self._position, self._taken = position, position["taken"]
        self._resumes = position
        self._program = Program(self._dataset)

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.terminate()

    def __len__(self) -> int:
        if not hasattr(type(self._dataset), "__len__"):
            raise TypeError(f"'{type(self._dataset).__name__}' has no len()")
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        """Returns the accessor at the beginning of an epoch; an unfinished epoch is discarded."""
        if self._is_inside:
            self._ring.given_up.fill_(self._ended + 1)
            while self._next() is not None:
                pass
        return self

    def __next__(self) -> Any:
        _core.meet_fault("load", "program")
        if not self._is_inside:
            self._follow_program()
        if not self._epoch_requested:
            self._request_epoch()
        item = self._next()
        if item is None:
            raise StopIteration
        return item

    def _next(self) -> Any:
        self._release_held()
        if self._process is None:
            raise AssertionError(self._death())
        ends = [self._connection.fileno()]
        if self._position is not None:
            ends.append(self._positions.fileno())
        if self._worker_file is not None:
            ends.append(self._worker_file)
        while not self._filled.acquire(unless=ends, timeout=_POLL_SECONDS):
            if self._hear_position():
                continue
            if self._connection.poll() or not self._process.is_alive():
                raise AssertionError(self._death())
        kind, rows = (int(x) for x in self._ring.header[self._slot, :2])
        slot = self._slot
        self._slot = (slot + 1) % self._task.buffer_size
        self._held = True
        if self._position is not None:
            self._follow(kind)
        self._is_inside = kind != Slot.END_OF_EPOCH
        self._untouched = False
        if kind == Slot.END_OF_EPOCH:
            self._ended += 1
            self._release_held()
            self._epoch_requested = False
            if self._load_indefinitely:
                self._request_epoch()
            return None
        slots = (tensor[slot] for tensor in self._ring.tensors)
        return unflatten(self._structure, (item[:rows] if item.dim() else item for item in slots))

    def _hear_position(self) -> bool:
        """Receives a position if there is one; the worker may wait until it is received."""
        try:
            if self._position is not None and self._positions.poll():
                self._arrived.append(self._positions.recv())
                return True
        except (EOFError, OSError):
            pass  # the worker has ended
        return False

    def _follow(self, kind: int) -> None:
        """Updates the position after an item.

        The worker sends a position before the first item of an epoch, and before its end.
        """
        is_end = kind == Slot.END_OF_EPOCH
        if self._is_new_epoch or is_end:
            while not self._arrived:
                if not self._hear_position():
                    raise AssertionError(self._death())
            self._position = self._arrived.pop(0)
        self._taken = 0 if is_end else self._taken + 1
        self._is_new_epoch = is_end
