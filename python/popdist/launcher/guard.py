"""A process that outlives the launcher by a moment, and kills the processes that it leaves.

The launcher sends it process groups through a pipe. The pipe closes when the launcher ends, for
whatever reason.
"""

import contextlib
import os
import shutil
import signal
from pathlib import Path


class Guard:
    """Forks, so construct it before any thread starts. It removes `folder` at the end."""

    def __init__(self, folder: Path) -> None:
        reader, self._writer = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            try:
                os.close(self._writer)
                _watch(reader, folder)
            finally:
                os._exit(0)
        os.close(reader)

    def watch(self, group: int) -> None:
        """Makes a process group end with the launcher."""
        os.write(self._writer, f"+{group}\n".encode())

    def forget(self, group: int) -> None:
        """Removes a group that has ended: the kernel may reuse its number."""
        os.write(self._writer, f"-{group}\n".encode())

    def close(self) -> None:
        """Kills the remaining groups, and waits until they are killed."""
        os.close(self._writer)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._process, 0)


def _watch(reader: int, folder: Path) -> None:
    os.setsid()  # the terminal's Ctrl-C does not reach this process
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):  # readers of the launcher's output wait until it is closed
        os.dup2(quiet, standard)
    os.closerange(3, reader)
    os.closerange(reader + 1, 1024)
    groups: set[int] = set()
    with os.fdopen(reader) as told:
        for line in told:
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
