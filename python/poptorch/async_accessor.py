"""Loads data in a worker process, ahead of the model, through a ring of shared-memory slots.

The worker fills slots in order and the parent reads them in order. Two semaphores count free and
filled slots; a row of shared integers says what a slot holds. Nothing is pickled after the start.
Memory and semaphores have no names: they are gone with the two processes, however these end.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import enum as _enum
import os
import signal
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import torch
import torch.multiprocessing as torch_mp
import torch.utils.data
from poptorch._impl.shared_ring import Ring
from poptorch._impl.structures import Node, flatten, unflatten
from poptorch.enums import SharingStrategy
from poptorch_core import Error
from poptorch_core.process_guard import EndsWithMaker, Process, end_with, this_process
from torch.utils.data import dataloader as torch_dataloader

_POLL_SECONDS = 0.1  # how often to look whether the worker lives, where the kernel does not tell
_START_METHODS = {
    SharingStrategy.SharedMemory: "spawn",
    SharingStrategy.FileSystem: "spawn",
    SharingStrategy.Fork: "fork",
    SharingStrategy.ForkServer: "forkserver",
}


class _Slot(_enum.IntEnum):
    """What a filled slot holds; row 0 of its header. Row 1 is the number of rows of data."""

    DATA = 0
    END_OF_EPOCH = 1


def _taken_apart(item: Any) -> tuple[Node, list[torch.Tensor]]:
    """An item's structure and its tensors. TypeError for anything else in it."""
    tensors: list[torch.Tensor] = []
    node = flatten(item, tensors)
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part.kind == "constant":
            raise TypeError(
                "A data set's items must be tensors, or tuples, lists and dicts of tensors; got "
                f"{part.type.__name__}."
            )
        waiting += part.children
    return node, tensors


@contextlib.contextmanager
def workers_end_with_this_process(loader: torch.utils.data.DataLoader) -> Iterator[None]:
    """Worker processes that the loader starts meanwhile end with this one, however that ends.

    Torch's own look every five seconds whether their parent, which may be a fork server, lives.
    """
    asked = loader.worker_init_fn
    loader.worker_init_fn = EndsWithMaker(asked)
    try:
        yield
    finally:
        loader.worker_init_fn = asked


def _guard_all_loaders() -> None:
    """Of this process: the workers of every DataLoader end with it."""
    plain = torch_dataloader._MultiProcessingDataLoaderIter.__init__

    def guarded(self: Any, loader: torch.utils.data.DataLoader) -> None:
        with workers_end_with_this_process(loader):
            plain(self, loader)

    setattr(torch_dataloader._MultiProcessingDataLoaderIter, "__init__", guarded)  # noqa: B010


@dataclasses.dataclass
class _Task:
    """What the worker is asked to do."""

    program: Process
    buffer_size: int
    rebatched_size: int | None
    keep_partial: bool


class _Worker:
    """The loop of the worker process."""

    def __init__(self, dataset: Any, connection: Any, task: _Task) -> None:
        self._dataset, self._connection, self._task = dataset, connection, task
        self._slot = 0
        self._rows = 0  # rows already in the slot being filled, when rebatching

    def run(self) -> None:
        # The parent answers Ctrl-C and ends us; a second handler here would only print noise.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setpgid(0, 0)  # what the data set starts ends with us
        end_with(self._task.program)
        _guard_all_loaders()
        # The cores are the step's: a second thread that spins at barriers would slow down both.
        torch.set_num_threads(1)
        try:
            self._start()
            while self._wait(self._go):
                self._epoch()
        except Exception:
            self._connection.send(("failed", traceback.format_exc(), None))

    def _wait(self, semaphore: Any) -> bool:
        """False when the parent has asked to stop."""
        stop = [self._connection.fileno()]
        return not self._connection.poll() and semaphore.acquire(unless=stop)

    def _start(self) -> None:
        """Describes the first item to the parent and receives the ring that it made for it."""
        self._iterator = iter(self._dataset)
        try:
            self._first = next(self._iterator)
        except StopIteration:
            raise ValueError("The data set has no items.") from None
        structure, tensors = _taken_apart(self._first)
        size = self._task.rebatched_size
        shapes = [((size, *t.shape[1:]) if size else tuple(t.shape), t.dtype) for t in tensors]
        self._connection.send(("started", structure, shapes))
        self._ring = Ring.received(self._connection, self._task.buffer_size, shapes)
        self._free, self._filled, self._go = self._ring.semaphores

    def _epoch(self) -> None:
        if self._first is None:
            self._iterator = iter(self._dataset)
        else:
            if not self._put(self._first):
                return
            self._first = None
        for item in self._iterator:
            if not self._put(item):
                return
        if self._rows and self._task.keep_partial:
            self._publish(_Slot.DATA, self._rows)
        elif self._rows:
            self._free.release()  # the slot taken for rows that are dropped
        self._rows = 0
        if self._wait(self._free):
            self._publish(_Slot.END_OF_EPOCH, 0)

    def _put(self, item: Any) -> bool:
        _, tensors = _taken_apart(item)
        rebatched = self._task.rebatched_size
        if rebatched is None:
            if not self._wait(self._free):
                return False
            for ring, tensor in zip(self._ring.tensors, tensors, strict=True):
                slot = ring[self._slot]
                (slot[: len(tensor)] if tensor.dim() else slot).copy_(tensor)
            self._publish(_Slot.DATA, len(tensors[0]) if tensors[0].dim() else 1)
            return True
        done, rows = 0, len(tensors[0])
        while done < rows:
            if self._rows == 0 and not self._wait(self._free):
                return False
            count = min(rows - done, rebatched - self._rows)
            for ring, tensor in zip(self._ring.tensors, tensors, strict=True):
                ring[self._slot][self._rows : self._rows + count].copy_(tensor[done : done + count])
            done += count
            self._rows += count
            if self._rows == rebatched:
                self._publish(_Slot.DATA, self._rows)
                self._rows = 0
        return True

    def _publish(self, kind: _Slot, rows: int) -> None:
        self._ring.header[self._slot, 0] = int(kind)
        self._ring.header[self._slot, 1] = rows
        self._slot = (self._slot + 1) % self._task.buffer_size
        self._filled.release()


def _run_worker(dataset: Any, connection: Any, task: _Task) -> None:
    _Worker(dataset, connection, task).run()


# Accessors whose worker still runs: ended at exit, so that no process outlives the program.
_live: weakref.WeakSet[AsynchronousDataAccessor] = weakref.WeakSet()


@atexit.register
def _terminate_all() -> None:
    for accessor in list(_live):
        accessor.terminate()


class AsynchronousDataAccessor:
    """Iterates over `dataset` while a worker process loads ahead.

    The tensors of an item are views of the ring: they are valid until the next item is asked for.

    Args:
        dataset: anything iterable whose items are tensors, or tuples, lists or dicts of them,
            nested in any way.
        buffer_size: slots of the ring.
        miss_sleep_time_in_ms: kept for compatibility; a waiting reader sleeps on a semaphore.
        load_indefinitely: the worker goes on with the next epoch before it is asked for.
        early_preload: the first epoch is loaded before the first iteration starts.
        sharing_strategy: how the worker process is started.
        rebatched_size: rows of an item; smaller batches of the data set are put together.

    Raises:
        AssertionError: `rebatched_size` is 1 or less, `buffer_size` 0; the worker died during an
            iteration.
        poptorch.Error: the data set is empty or fails, or is a DataLoader that has an accessor.
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
        assert rebatched_size is None or rebatched_size > 1, (
            f"rebatched_size must be None or greater than 1 but is {rebatched_size}"
        )
        assert buffer_size > 0, f"buffer_size must be 1 or more but is {buffer_size}"
        del miss_sleep_time_in_ms
        self._dataset = dataset
        self._load_indefinitely = load_indefinitely
        self._epoch_requested = False
        self._held = False  # a slot is in the hands of the user
        self._slot = 0
        self._process: Any = None  # of multiprocessing
        self._worker_file: int | None = None
        self._task = _Task(this_process(), buffer_size, rebatched_size, _keep_partial)
        self._start(torch_mp.get_context(_START_METHODS[SharingStrategy(sharing_strategy)]))
        if early_preload:
            self._request_epoch()

    def _start(self, context: Any) -> None:
        self._connection, theirs = context.Pipe()
        # Not a daemon: the data set may be a DataLoader with workers of its own.
        self._process = context.Process(
            target=_run_worker, args=(self._dataset, theirs, self._task)
        )
        try:
            self._process.start()
        except RuntimeError as error:  # of multiprocessing: no __main__ guard
            self._process = None
            raise Error(
                "AsynchronousDataAccessor worker thread failed to start: the main module starts "
                "it while it is imported. Put the program into `if __name__ == '__main__':`, or "
                f"use SharingStrategy.Fork. ({str(error).strip().splitlines()[0].strip()})"
            ) from error
        except Exception as error:  # of pickle, which raises what it likes
            self._process = None
            raise Error(
                "AsynchronousDataAccessor worker thread failed to start: the data set cannot be "
                f"sent to it ({error}). Define its class at the top of a module, or use "
                "SharingStrategy.Fork."
            ) from error
        theirs.close()
        _live.add(self)
        self._worker_file = _file_of(self._process.pid)
        failure = self._meet_worker()
        if failure is not None:
            self.terminate()
            raise Error(f"AsynchronousDataAccessor worker thread failed to start: {failure}")

    def _meet_worker(self) -> str | None:
        """Takes the worker's description of an item and gives it a ring; what failed, if it did."""
        try:
            kind, detail, shapes = self._connection.recv()
            if kind == "failed":
                return detail
            self._structure = detail
            self._ring = Ring(self._task.buffer_size, shapes)
            self._ring.send(self._connection, self._process.pid)
        except MemoryError as error:
            return str(error)
        except (EOFError, OSError):  # it has ended
            self._process.join(timeout=1.0)
            return f"exit code {self._process.exitcode}"
        self._free, self._filled, self._go = self._ring.semaphores
        return None

    def terminate(self) -> None:
        """Ends the worker process. May be called more than once."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):  # it has ended
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
        if self._worker_file is not None:
            os.close(self._worker_file)
        _live.discard(self)

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.terminate()

    def __len__(self) -> int:
        if not hasattr(type(self._dataset), "__len__"):
            raise TypeError(f"'{type(self._dataset).__name__}' has no len()")
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        if not self._epoch_requested:
            self._request_epoch()
        while True:
            item = self._next()
            if item is None:
                return
            yield item

    def _request_epoch(self) -> None:
        self._epoch_requested = True
        self._go.release()

    def _next(self) -> Any:
        self._release_held()
        assert self._process is not None, self._death()
        ends = [self._connection.fileno()]
        if self._worker_file is not None:
            ends.append(self._worker_file)
        while not self._filled.acquire(unless=ends, timeout=_POLL_SECONDS):
            assert not self._connection.poll() and self._process.is_alive(), self._death()
        kind, rows = (int(x) for x in self._ring.header[self._slot])
        slot = self._slot
        self._slot = (slot + 1) % self._task.buffer_size
        self._held = True
        if kind == _Slot.END_OF_EPOCH:
            self._release_held()
            self._epoch_requested = False
            if self._load_indefinitely:
                self._request_epoch()
            return None
        slots = (tensor[slot] for tensor in self._ring.tensors)
        return unflatten(self._structure, (item[:rows] if item.dim() else item for item in slots))

    def _release_held(self) -> None:
        if self._held:
            self._held = False
            self._free.release()

    def _death(self) -> str:
        """What the worker said before it ended, or how it ended."""
        reason = "terminate() was called"
        if self._process is not None:
            self._process.join(timeout=1.0)
            reason = f"exit code {self._process.exitcode}"
            try:
                if self._connection.poll():
                    reason = self._connection.recv()[1]
            except EOFError:
                pass  # killed before it could say anything
        return f"AsynchronousDataAccessor: the worker process died while loading data: {reason}"


def _file_of(pid: int) -> int | None:
    """What can be read once that process has ended; None where there is no such thing."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
