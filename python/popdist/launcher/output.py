"""What instances write: whole lines, tagged, each of one instance and stream."""

from collections import deque
from pathlib import Path

from popdist.launcher.sink import OutputError, Sink, write_all

_LONGEST = 1 << 20  # bytes of a line; what is longer is cut into several
_REMEMBERED = 20  # lines of a stream


class Lines:
    """Cuts a stream into finished lines.

    A progress bar writes its line again and again behind a carriage return: the line is what is
    there when it is finished.
    """

    def __init__(self) -> None:
        self._open = b""

    def add(self, data: bytes) -> list[bytes]:
        """The lines that the data finish, without their ends."""
        *lines, self._open = (self._open + data).split(b"\n")
        found = [_last_written(line) for line in lines]
        if b"\r" in self._open:  # what is written over is not kept
            self._open = _last_written(self._open, open_line=True)
        while len(self._open) > _LONGEST:
            found.append(self._open[:_LONGEST])
            self._open = self._open[_LONGEST:]
        return found

    def end(self) -> list[bytes]:
        """The last line, which nothing finished."""
        rest, self._open = _last_written(self._open), b""
        return [rest] if rest else []


def _last_written(line: bytes, *, open_line: bool = False) -> bytes:
    """What stands behind the carriage returns; of an open line, with the last of these."""
    parts = line.split(b"\r")
    written = next((part for part in reversed(parts) if part), b"")
    return written + b"\r" if open_line and not parts[-1] and written else written


class Stream:
    """stdout or stderr of an instance.

    out: where its lines go, or None. folder: where a file of its own is written, or None. Raises
    OutputError where that cannot be.
    """

    def __init__(self, index: int, name: str, out: Sink | None, folder: Path | None) -> None:
        self._tag = f"[1,{index}]<{name}>:".encode()
        self.out = out
        self._lines = Lines()
        self._last: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._file = None
        if folder is not None:
            self._path = folder / name
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._file = open(self._path, "ab", buffering=0)  # until end()
            except OSError as error:
                raise self._cannot_write(error) from None

    def take(self, data: bytes) -> None:
        """Passes on what has been written. Raises OutputError."""
        if self._file is not None:
            try:
                write_all(self._file.fileno(), data)
            except OSError as error:
                self._file.close()
                self._file = None
                raise self._cannot_write(error) from None
        self._pass_on(self._lines.add(data))

    def end(self) -> None:
        """Nothing more comes."""
        if self._file is not None:
            self._file.close()
        self._pass_on(self._lines.end())

    def _pass_on(self, lines: list[bytes]) -> None:
        self._last.extend(lines)
        if self.out is not None and lines:
            self.out.put(b"".join(self._tag + line + b"\n" for line in lines))

    def _cannot_write(self, error: OSError) -> OutputError:
        return OutputError(f"{self._path} of --output-filename cannot be written: {error.strerror}")

    def last_lines(self) -> bytes:
        """What was written last, tagged."""
        return b"".join(self._tag + line + b"\n" for line in self._last)
