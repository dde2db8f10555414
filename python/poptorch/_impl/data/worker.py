"""The worker process of an AsynchronousDataAccessor, which fills the slots of a ring buffer."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data
from poptorch._impl.data import renewal, spawn
from poptorch._impl.data.batch_groups import ONE_STRUCTURE
from poptorch._impl.data.epochs import OwnProcess
from poptorch._impl.data.ring import Ring, Shape
from poptorch._impl.pytree.node import Attribute, Node
from poptorch._impl.pytree.structures import flatten, order_in
from poptorch._logging import logger_of
from poptorch_core import _core
from poptorch_core.process_guard import EndsWithMaker, Process, end_with
from torch.utils.data import dataloader as torch_dataloader

logger = logger_of(__name__)


class Slot(enum.IntEnum):
    """The kind of a filled slot: column 0 of its header. Column 1 is the number of rows."""

    DATA = 0
    END_OF_EPOCH = 1


class ItemsError(AssertionError):
    """Raised if an item of a data set contains an object that is not a tensor."""


class _Renewed(Exception):
    """The parent has sent another data set, pickled as `data`."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


def _send(connection: Any, message: Any) -> None:
    """Sends a message by value, because sharing a tensor's memory needs another handshake."""
    connection.send_bytes(pickle.dumps(message))


class _Items:
    """Takes the items of a data set apart, which have the structure of the first one.

    Values that are not tensors may only be attributes of objects, and are equal in all items.
    """

    def __init__(self, structure: Node | None) -> None:
        self.structure = structure

    def tensors_of(self, item: Any) -> list[torch.Tensor]:
        """Returns the item's tensors, in the order of those of the first item.

        Raises ItemsError for other values, and poptorch.Error for an item of another structure.
        """
        tensors: list[torch.Tensor] = []
        node = flatten(item, tensors, "item")
        for index, (leaf, is_attribute) in enumerate(_leaves(node)):
            if leaf.kind == "constant" and not is_attribute:
                raise ItemsError(
                    f"Tensor at index {index} is not a torch tensor ({leaf.type}). A data set's "
                    "items must be tensors, or tuples, lists, dicts and objects of tensors."
                )
        if self.structure is None:
            self.structure = node
        return [tensors[i] for i in order_in(self.structure, node, ONE_STRUCTURE, constants=True)]


def _leaves(node: Node, is_attribute: bool = False) -> Iterator[tuple[Node, bool]]:
    """Yields the tensors and constants, and whether each is in an attribute of an object."""
    if node.kind in ("tensor", "constant"):
        yield node, is_attribute
    for key, child in zip(node.keys, node.children, strict=True):
        yield from _leaves(child, is_attribute or isinstance(key, Attribute))


@contextlib.contextmanager
def workers_end_with_this_process(loader: torch.utils.data.DataLoader) -> Iterator[None]:
    """Makes worker processes that the loader starts in the body end with this process.

    Torch's workers check only every five seconds whether their parent, which may be a fork server,
    is alive.
    """
    asked = loader.worker_init_fn
    loader.worker_init_fn = EndsWithMaker(asked)
    try:
        yield
    finally:
        loader.worker_init_fn = asked


def _guard_all_loaders() -> None:
    """Makes the workers of every DataLoader in this process end with it."""
    plain = torch_dataloader._MultiProcessingDataLoaderIter.__init__

    def guarded(self: Any, loader: torch.utils.data.DataLoader) -> None:
        with workers_end_with_this_process(loader):
            plain(self, loader)

    setattr(torch_dataloader._MultiProcessingDataLoaderIter, "__init__", guarded)  # noqa: B010


@dataclasses.dataclass
class Task:
    """The task of a worker.

    shapes: the shapes of the ring's tensors if an earlier worker has described an item; else None.
    structure: the structure of that item.
    start_method: how the program starts processes by default.
    """

    program: Process
    log_level: int
    buffer_size: int
    rebatched_size: int | None
    keep_partial: bool
    shapes: list[Shape] | None = None
    structure: Node | None = None
    start_method: str = dataclasses.field(default_factory=spawn.default_method)

    def __setstate__(self, state: dict[str, Any]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # runs in the worker, before it starts
        self.__dict__.update(state)


class _Worker:
    """The loop of the worker process."""

    def __init__(self, dataset: Any, connection: Any, positions: Any, task: Task) -> None:
        self._dataset, self._connection, self._task = dataset, connection, task
        self._positions: Any = positions if isinstance(dataset, OwnProcess) else None
        self._iterator: Any = None
        self._first: Any = None
        self._items = _Items(task.structure)
        self._slot, self._is_stopped = 0, False
        self._rows = 0  # rows in the current slot, when rebatching
        self._drop = 0  # rows at the beginning of the epoch to skip
        self._epochs = 0  # completed epochs

    def run(self) -> None:
        # The parent handles Ctrl-C and ends this process; a handler here would print it twice.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # blocked during the start
        os.setpgid(0, 0)  # processes that the data set starts end with this one
        end_with(self._task.program)
        _guard_all_loaders()
        # The method that started this process is its default. With "forkserver" or "spawn", every
        # worker of a loader would import torch again.
        multiprocessing.set_start_method(self._task.start_method, force=True)
        spawn.preload()
        # The step needs the cores: threads that spin at barriers here would slow down both.
        torch.set_num_threads(1)
        logger.setLevel(self._task.log_level)
        try:
            while self._start() and not self._load():
                pass
            logger.debug("AsynchronousDataAccessor worker: clean exit")
        except Exception as error:
            traceback.print_exc()
            sys.stderr.flush()
            text = "".join(traceback.format_exception_only(error)).strip()
            with contextlib.suppress(OSError):  # the parent has closed the connection
                _send(self._connection, ("failed", text, isinstance(error, ItemsError), None))

    def _load(self) -> bool:
        """Loads epochs until the parent requests a stop, or sends a data set: returns False."""
        try:
            while self._wait(self._go):
                self._epoch()
                self._epochs += 1
        except _Renewed as renewed:
            self._iterator = self._first = None  # ends the workers of the former data set
            self._dataset = renewal.loads(renewed.data, self._dataset)
            self._task = dataclasses.replace(self._task, shapes=None)
            self._slot = self._rows = self._drop = self._epochs = 0
            return False
        return True

    def _wait(self, semaphore: Any) -> bool:
        """Acquires the semaphore; returns False if the parent requests a stop.

        Raises _Renewed if the parent sends another data set.
        """
        if self._is_stopped:
            return False
        stop = [self._connection.fileno()]
        if not self._connection.poll() and semaphore.acquire(unless=stop):
            return True
        try:
            message = self._connection.recv()
        except (EOFError, OSError):  # the parent has closed the connection
            message = "stop"
        if message != "stop":
            raise _Renewed(message)
        self._is_stopped = True  # for the waits of all callers
        return False

    def _start(self) -> bool:
        """Describes the first item to the parent and receives the ring for it.

        Returns False if the parent stops.
        """
        shapes, structure, position = self._task.shapes, None, None
        if shapes is None:
            self._begin_epoch()
            try:
                self._first = next(self._iterator)
            except StopIteration:
                raise ValueError("The Dataset is empty") from None
            tensors = self._items.tensors_of(self._first)
            structure = self._items.structure
            size = self._task.rebatched_size
            shapes = [((size, *t.shape[1:]) if size else tuple(t.shape), t.dtype) for t in tensors]
            position = None if self._positions is None else self._dataset.position(running=True)
        try:
            _send(self._connection, ("started", structure, shapes, position))
            if self._connection.recv() == "stop":
                return False
            self._ring = Ring.received(self._connection, self._task.buffer_size, shapes)
        except (EOFError, OSError):  # the parent has closed the connection
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
            self._free.release()  # of the slot whose rows are dropped
        self._rows = 0
        if self._positions is not None:
            _send(self._positions, self._dataset.position(running=False))
        if self._wait(self._free):
            self._publish(Slot.END_OF_EPOCH, 0)

    def _is_given_up(self) -> bool:
        return int(self._ring.given_up) > self._epochs

    def _put(self, item: Any) -> bool:
        _core.meet_fault("load", "loader")
        tensors = self._items.tensors_of(item)
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
        if self._tell and kind == Slot.DATA:  # before the epoch's first item
            _send(self._positions, self._dataset.position(running=True))
            self._tell = False
        self._ring.header[self._slot, 0] = int(kind)
        self._ring.header[self._slot, 1] = rows
        self._slot = (self._slot + 1) % self._task.buffer_size
        self._filled.release()


def run_worker(task: Task, dataset: Any, connection: Any, positions: Any) -> None:
    """Runs the worker process: fills the ring of `task` until the parent requests a stop.

    positions: a connection for the positions of a data set that has them. The worker sends an
    epoch's position before its first item, and the next epoch's position before its end.
    """
    _Worker(dataset, connection, positions, task).run()
