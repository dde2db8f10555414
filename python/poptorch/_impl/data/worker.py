"""What the worker process of an AsynchronousDataAccessor does: it fills the slots of a ring."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data
from poptorch._impl.data.epochs import OwnProcess
from poptorch._impl.data.ring import Ring, Shape
from poptorch._impl.pytree.structures import Node, flatten, walk
from poptorch._logging import logger_of
from poptorch_core import _core
from poptorch_core.process_guard import EndsWithMaker, Process, end_with
from torch.utils.data import dataloader as torch_dataloader

logger = logger_of(__name__)


class Slot(enum.IntEnum):
    """What a filled slot holds; row 0 of its header. Row 1 is the number of rows of data."""

    DATA = 0
    END_OF_EPOCH = 1


class ItemsError(AssertionError):
    """Items of a data set hold what is no tensor."""


def _send(connection: Any, message: Any) -> None:
    """Sends it by value: for a tensor's memory, both processes would have to meet once more."""
    connection.send_bytes(pickle.dumps(message))


def _taken_apart(item: Any) -> tuple[Node, list[torch.Tensor]]:
    """An item's structure and its tensors. ItemsError for anything else in it."""
    tensors: list[torch.Tensor] = []
    node = flatten(item, tensors)
    leaves = [part for part in walk([node]) if part.kind in ("tensor", "constant")]
    for index, leaf in enumerate(leaves):
        if leaf.kind == "constant":
            raise ItemsError(
                f"Tensor at index {index} is not a torch tensor ({leaf.type}). A data set's items "
                "must be tensors, or tuples, lists and dicts of tensors."
            )
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
class Task:
    """What the worker is asked to do.

    shapes: those of the ring's tensors where a worker before has described an item; None: this one
    does.
    """

    program: Process
    log_level: int
    buffer_size: int
    rebatched_size: int | None
    keep_partial: bool
    shapes: list[Shape] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # in the worker, which is about to start
        self.__dict__.update(state)


class _Worker:
    """The loop of the worker process."""

    def __init__(self, dataset: Any, connection: Any, positions: Any, task: Task) -> None:
        self._dataset, self._connection, self._task = dataset, connection, task
        self._positions: Any = positions if isinstance(dataset, OwnProcess) else None
        self._first: Any = None
        self._slot = 0
        self._rows = 0  # rows already in the slot being filled, when rebatching
        self._drop = 0  # rows of the epoch that the reader does not want
        self._epochs = 0  # that have ended

    def run(self) -> None:
        # The parent answers Ctrl-C and ends us; a second handler here would only print noise.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # held while we were started
        os.setpgid(0, 0)  # what the data set starts ends with us
        end_with(self._task.program)
        _guard_all_loaders()
        # The cores are the step's: a second thread that spins at barriers would slow down both.
        torch.set_num_threads(1)
        logger.setLevel(self._task.log_level)
        try:
            if not self._start():
                return
            while self._wait(self._go):
                self._epoch()
                self._epochs += 1
            logger.debug("AsynchronousDataAccessor worker: clean exit")
        except Exception as error:
            traceback.print_exc()
            sys.stderr.flush()
            text = "".join(traceback.format_exception_only(error)).strip()
            with contextlib.suppress(OSError):  # the parent does not listen any more
                _send(self._connection, ("failed", text, isinstance(error, ItemsError), None))

    def _wait(self, semaphore: Any) -> bool:
        """False when the parent has asked to stop."""
        stop = [self._connection.fileno()]
        return not self._connection.poll() and semaphore.acquire(unless=stop)

    def _start(self) -> bool:
        """Describes the first item to the parent and receives the ring that it made for it.

        False where the parent does not go on.
        """
        shapes, structure, position = self._task.shapes, None, None
        if shapes is None:
            self._begin_epoch()
            try:
                self._first = next(self._iterator)
            except StopIteration:
                raise ValueError("The Dataset is empty") from None
            structure, tensors = _taken_apart(self._first)
            size = self._task.rebatched_size
            shapes = [((size, *t.shape[1:]) if size else tuple(t.shape), t.dtype) for t in tensors]
            position = None if self._positions is None else self._dataset.position(running=True)
        try:
            _send(self._connection, ("started", structure, shapes, position))
            if self._connection.recv() == "stop":
                return False
            self._ring = Ring.received(self._connection, self._task.buffer_size, shapes)
        except (EOFError, OSError):  # closed at its other end
            return False
        self._free, self._filled, self._go = self._ring.semaphores
        return True

    def _begin_epoch(self) -> None:
        self._iterator = iter(self._dataset)
        self._drop = 0 if self._positions is None else self._dataset.rows_to_drop()
        self._tell = self._positions is not None

    def _epoch(self) -> None:
        if self._first is None:
            self._begin_epoch()
        else:
            if not self._put(self._first):
                return
            self._first = None
        for item in self._iterator:
            if self._is_given_up():
                break
            if not self._put(item):
                return
        if self._rows and self._task.keep_partial and not self._is_given_up():
            self._publish(Slot.DATA, self._rows)
        elif self._rows:
            self._free.release()  # the slot taken for rows that are dropped
        self._rows = 0
        if self._positions is not None:
            _send(self._positions, self._dataset.position(running=False))
        if self._wait(self._free):
            self._publish(Slot.END_OF_EPOCH, 0)

    def _is_given_up(self) -> bool:
        return int(self._ring.given_up) > self._epochs

    def _put(self, item: Any) -> bool:
        _core.meet_fault("load", "loader")
        _, tensors = _taken_apart(item)
        rebatched = self._task.rebatched_size
        if rebatched is None:
            if not self._wait(self._free):
                return False
            for ring, tensor in zip(self._ring.tensors, tensors, strict=True):
                slot = ring[self._slot]
                (slot[: len(tensor)] if tensor.dim() else slot).copy_(tensor)
            self._publish(Slot.DATA, len(tensors[0]) if tensors[0].dim() else 1)
            return True
        rows = len(tensors[0])
        done = min(rows, self._drop)
        self._drop -= done
        while done < rows:
            if self._rows == 0 and not self._wait(self._free):
                return False
            count = min(rows - done, rebatched - self._rows)
            for ring, tensor in zip(self._ring.tensors, tensors, strict=True):
                ring[self._slot][self._rows : self._rows + count].copy_(tensor[done : done + count])
            done += count
            self._rows += count
            if self._rows == rebatched:
                self._publish(Slot.DATA, self._rows)
                self._rows = 0
        return True

    def _publish(self, kind: Slot, rows: int) -> None:
        if self._tell and kind == Slot.DATA:  # before the epoch's first
            _send(self._positions, self._dataset.position(running=True))
            self._tell = False
        self._ring.header[self._slot, 0] = int(kind)
        self._ring.header[self._slot, 1] = rows
        self._slot = (self._slot + 1) % self._task.buffer_size
        self._filled.release()


def run_worker(task: Task, dataset: Any, connection: Any, positions: Any) -> None:
    """The worker process: fills the ring of `task` until the other end of `connection` says stop.

    positions: where it sends those of a data set that has them: before an epoch's first item is
    published, that of the epoch; before its end is, that of what will follow.
    """
    _Worker(dataset, connection, positions, task).run()
