"""The launcher's own stdout and stderr, whose reader may be slow, stopped or gone."""

import contextlib
import os
import select

_MOST_WAITING = 1 << 20  # bytes; with more, instances are not read until all is written
_SECONDS_AT_A_TIME = 0.1  # to wait for a reader


class OutputError(Exception):
    """Output cannot be written."""


class Sink:
    """Takes whole lines and writes what the reader takes, without waiting for it: instances have to
    be ended meanwhile.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self._waiting = bytearray()
        self.out = _without_waiting(file)  # what is written to

    @property
    def waits(self) -> bool:
        """Whether something is left to write."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether it should get nothing more for now."""
        return len(self._waiting) > _MOST_WAITING

    def put(self, data: bytes) -> None:
        """To be written in the order of the calls."""
        self._waiting += data

    def write(self) -> None:
        """As much as is taken at once. Raises BrokenPipeError when nobody reads any more, and
        OutputError for other reasons."""
        try:
            # A pipe that is ready takes this much; a terminal or a file says how much it takes.
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
        """Drops what waits."""
        if self.out != self.file:
            os.close(self.out)


def standard_sinks() -> dict[int, Sink]:
    """Of stdout and stderr, by number: one of both where they are one file, as by 2>&1. Two would
    write into each other's lines."""
    out = Sink(1)
    return {1: out, 2: out if os.path.sameopenfile(1, 2) else Sink(2)}


def is_ready(file: int, seconds: float = 0.0) -> bool:
    """Whether a file takes something within that time, or says that it never will."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


def write_all(file: int, data: bytes) -> None:
    """Writes everything and waits for the reader, of a file that may be set not to wait.

    A signal that comes right before a system call is not heard until that returns: none of these
    waits for long.
    """
    view = memoryview(data)
    while view:
        if is_ready(file, _SECONDS_AT_A_TIME):
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(file, view[: select.PIPE_BUF]) :]


def _without_waiting(file: int) -> int:
    """A terminal that takes little would be waited for: it is opened anew, since not to wait must
    not be set for other programs that have it."""
    try:
        if os.isatty(file):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{file}", flags)
    except OSError:
        pass
    return file
