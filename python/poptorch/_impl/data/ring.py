"""A ring buffer and semaphores for two processes, without names, so that they end with both.

File descriptors are sent over the connection between the processes.
"""

from __future__ import annotations

import mmap
import multiprocessing.reduction
import os
import select
from collections.abc import Sequence
from multiprocessing.connection import Connection

import torch

_ALIGNMENT = 64
Shape = tuple[tuple[int, ...], torch.dtype]


class Semaphore:
    """A semaphore in the kernel: one process releases it, the other acquires it."""

    def __init__(self, value: int = 0, *, file: int | None = None) -> None:
        flags = os.EFD_SEMAPHORE | os.EFD_CLOEXEC
        self.file = os.eventfd(0, flags) if file is None else file
        if value:
            self.release(value)

    def release(self, count: int = 1) -> None:
        os.eventfd_write(self.file, count)

    def acquire(self, unless: Sequence[int], timeout: float | None = None) -> bool:
        """Waits for the semaphore and acquires it.

        Returns False if, before that, a file of `unless` becomes readable or is closed by its peer,
        or the timeout (in seconds) is over.
        """
        poll = select.poll()
        for file in (self.file, *unless):
            poll.register(file, select.POLLIN)
        ready = {file for file, _ in poll.poll(None if timeout is None else timeout * 1000)}
        if self.file not in ready:
            return False
        os.eventfd_read(self.file)
        return True

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
        self.file = -1

    def __del__(self) -> None:
        self.close()


class Ring:
    """Shared memory for `slots` items: tensors [slots, *shape] and a header [slots, 3].

    header: kind and number of rows of each slot.
    given_up: an element of the header with the number of epochs that the reader has abandoned.
    semaphores: counts of free slots, of filled slots, and of epochs that the worker may load.
    Raises MemoryError if there is not enough shared memory.
    """

    def __init__(self, slots: int, shapes: Sequence[Shape], files: Sequence[int] | None = None):
        specs = [((3,), torch.int64), *shapes]
        sizes = [slots * _elements(shape) * dtype.itemsize for shape, dtype in specs]
        offsets = [0]
        for size in sizes:
            offsets.append(offsets[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
        if files is None:
            self._memory = os.memfd_create("poptorch-ring", os.MFD_CLOEXEC)
            self.semaphores = Semaphore(slots), Semaphore(), Semaphore()
        else:
            self._memory = files[0]
            free, filled, go = (Semaphore(file=file) for file in files[1:])
            self.semaphores = free, filled, go
        try:
            if files is None:
                os.ftruncate(self._memory, offsets[-1])
            whole = mmap.mmap(self._memory, offsets[-1])
        except OSError as error:
            raise MemoryError(
                f"[data] cannot allocate {offsets[-1]} bytes of shared memory for {slots} items "
                f"({error.strerror}). Use smaller batches or a smaller buffer_size."
            ) from error
        self.header, *self.tensors = (
            _view(whole, (slots, *shape), dtype, offset)
            for (shape, dtype), offset in zip(specs, offsets, strict=False)
        )

        self.given_up = self.header[0, 2]

    def send(self, connection: Connection, pid: int) -> None:
        """Sends it to the process at the other end of the connection."""
        for file in (self._memory, *(semaphore.file for semaphore in self.semaphores)):
            multiprocessing.reduction.send_handle(connection, file, pid)

    @classmethod
    def received(cls, connection: Connection, slots: int, shapes: Sequence[Shape]) -> Ring:
        """Receives a ring from the other end of the connection."""
        files = [multiprocessing.reduction.recv_handle(connection) for _ in range(4)]
        return cls(slots, shapes, files)

    def __del__(self) -> None:
        if hasattr(self, "_memory"):
            os.close(self._memory)


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _view(whole: mmap.mmap, shape: tuple[int, ...], dtype: torch.dtype, offset: int):
    count = _elements(shape)
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    flat = torch.frombuffer(whole, dtype=dtype, count=count, offset=offset)
    return flat.view(shape)
