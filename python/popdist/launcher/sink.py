"""The launcher's stdout and stderr, whose reader may be slow, stopped or gone."""

import contextlib
import os
import select

_MOST_WAITING = 1 << 20  # bytes; above it, instances are not read until all is written
_SECONDS_AT_A_TIME = 0.1  # the longest uninterrupted wait for a reader


class OutputError(Exception):
    """Output cannot be written."""


class Sink:
    """Buffers whole lines and writes them without blocking on the reader.

    The launcher must be able to end instances meanwhile.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self._waiting = bytearray()
        self.out = _without_waiting(file)  # the file descriptor for writes

    @property
    def waits(self) -> bool:
        """Whether there is data left to write."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether callers must not add data for now."""
        return len(self._waiting) > _MOST_WAITING

    def put(self, data: bytes) -> None:
        """Appends data; it is written in the order of the calls."""
        self._waiting += data

    def write(self) -> None:
        """Writes as much as the reader takes without blocking.

        Raises:
            BrokenPipeError: The reader is gone.
            OutputError: The data cannot be written for another reason.
        """
        try:
            # A ready pipe takes PIPE_BUF bytes; a terminal or a file returns how much it takes.
            while self._waiting and is_ready(self.out):
                written = os.write(self.out, self._waiting[: select.PIPE_BUF])
                del self._waiting[:written]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._waiting.clear()
            raise
        except OSError as error:
            self._waiting.clear()
            name = {1: "stdout", 2: "stderr"}[self.file]
            raise OutputError(f"{name} cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Drops unwritten data."""
        if self.out != self.file:
            os.close(self.out)


def standard_sinks() -> dict[int, Sink]:
    """Returns the sinks of stdout and stderr, by number.

    Both share one sink if they are one file, for example by 2>&1: two would mix their lines.
    """
    out = Sink(1)
    return {1: out, 2: out if os.path.sameopenfile(1, 2) else Sink(2)}


def is_ready(file: int, seconds: float = 0.0) -> bool:
    """Returns whether a file takes data within that time, or reports that it never will."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


def write_all(file: int, data: bytes) -> None:
    """Writes everything and waits for the reader, even if the file is non-blocking.

    Python handles a signal that comes right before a system call only after that call: so none of
    the calls here waits for long.
    """
    view = memoryview(data)
    while view:
        if is_ready(file, _SECONDS_AT_A_TIME):
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(file, view[: select.PIPE_BUF]) :]


def _without_waiting(file: int) -> int:
    """Returns a file descriptor for non-blocking writes.

    A slow terminal would block. It is opened again, because setting O_NONBLOCK on the shared file
    would affect other programs.
    """
    try:
        if os.isatty(file):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{file}", flags)
    except OSError:
        pass
    return file
