"""Processes of instances: their start and their end."""

import contextlib
import errno
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from popdist.launcher.output import Stream


@dataclass(frozen=True)
class Command:
    """How an instance is started.

    Attributes:
        words: The program and its arguments.
        environment: Its environment.
        host: The name of its host.
        cpus: The processors to which it is bound, or None.
        sends: The bytes for its stdin, which then stays open as long as it may run.
        note: The file in which others find its process, and how that ended.
    """

    words: tuple[str, ...]
    environment: dict[str, str]
    host: str
    cpus: frozenset[int] | None = None
    sends: bytes | None = None
    note: Path | None = None


class StartError(Exception):
    """The program cannot be started. Exit status 126 or 127, as in a shell."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Running:
    """An instance.

    Attributes:
        pidfd: Becomes readable when the instance ends; -1 if the kernel has none, and the
            supervisor polls.
        status: Its exit status as in a shell, or None while it runs.
    """

    index: int
    host: str
    process: subprocess.Popen
    streams: list[Stream]
    note: Path | None
    pidfd: int = -1
    status: int | None = None

    def how(self) -> str:
        """Returns how it ended, as text."""
        code = self.process.returncode
        return f"it ended with status {code}" if code >= 0 else f"it ended by signal {-code}"

    def has_ended(self) -> bool:
        """Returns whether it has ended; keeps it as a zombie."""
        found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        return found is not None

    def signal(self, number: int) -> None:
        """Sends a signal to it and to the processes that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def tell(self) -> None:
        """Writes its process, and how it ended, into the note, atomically."""
        if self.note is None:
            return
        with contextlib.suppress(OSError):
            written = self.note.with_name(f"{self.note.name}.new")
            how = self.how() if self.status is not None else ""
            written.write_text(json.dumps([self.process.pid, how]))
            written.replace(self.note)


def started(index: int, command: Command, streams: list[Stream]) -> Running:
    """Starts an instance and returns it. Raises StartError."""
    pipe = subprocess.PIPE
    own = None if index == 0 and command.sends is None and _may_read() else subprocess.DEVNULL
    try:
        with _bound_to(command.cpus):
            process = subprocess.Popen(
                command.words,
                env=command.environment,
                stdin=pipe if command.sends is not None else own,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
                bufsize=0,
            )
    except OSError as error:
        raise _start_error(index, command, error) from None
    if command.sends is not None and process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(command.sends)
    running = Running(index, command.host, process, streams, command.note)
    with contextlib.suppress(OSError):
        running.pidfd = os.pidfd_open(process.pid)
    return running


def _start_error(index: int, command: Command, error: OSError) -> StartError:
    what = f"instance {index}: cannot start {command.words[0]!r}"
    advice = "Name a program that can be run."
    if command.sends is not None:
        advice = (
            f"It reaches host {command.host}: install it, or start python -m popdist <program> on "
            "both hosts with torchrun or mpirun."
        )
    elif error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM):
        advice = "Start fewer instances, or raise the limits of this host (ulimit -n, -u)."
    elif error.errno == errno.E2BIG:
        advice = "Make its arguments and the environment shorter."
    status = 127 if isinstance(error, FileNotFoundError) else 126
    return StartError(f"{what}: {error.strerror}. {advice}", status)


def _may_read() -> bool:
    """Returns whether instances may read this stdin: a terminal serves its own session only."""
    try:
        return not os.isatty(0)
    except OSError:
        return False


@contextlib.contextmanager
def _bound_to(cpus: frozenset[int] | None) -> Iterator[None]:
    """Binds this process to processors: a process started meanwhile inherits the binding."""
    if cpus is None:
        yield
        return
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)
