"""A process that outlives the launcher by a moment, and kills what that one leaves behind.

The launcher tells it of process groups through a pipe; its end is the launcher's, however it comes.
"""

import contextlib
import os
import shutil
import signal
from pathlib import Path


class Guard:
    """To be made before there are threads: it forks. folder: is removed at the end."""

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
        """From here on, the group ends with the launcher."""
        os.write(self._writer, f"+{group}\n".encode())

    def forget(self, group: int) -> None:
        """The group has ended: its number may be another's."""
        os.write(self._writer, f"-{group}\n".encode())

    def close(self) -> None:
        """Kills the groups that are left, and waits for that."""
        os.close(self._writer)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._process, 0)


def _watch(reader: int, folder: Path) -> None:
    os.setsid()  # a terminal's Ctrl-C is for others
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):  # whoever reads the launcher's output waits for its end
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
