"""The output of instances, as whole tagged lines, each from one instance and stream."""

from collections import deque
from pathlib import Path

from popdist.launcher.sink import OutputError, Sink, write_all

_LONGEST = 1 << 20  # bytes of a line; longer ones are cut
_REMEMBERED = 20  # last lines of a stream that are kept


class Lines:
    """Cuts a stream into finished lines.

    A progress bar rewrites its line after each carriage return: only the last text is kept.
    """

    def __init__(self) -> None:
        self._open = b""

    def add(self, data: bytes) -> list[bytes]:
        """Returns the lines that the data complete, without line ends."""
        *lines, self._open = (self._open + data).split(b"\n")
        found = [_last_written(line) for line in lines]
        if b"\r" in self._open:  # overwritten text is not kept
            self._open = _last_written(self._open, open_line=True)
        while len(self._open) > _LONGEST:
            found.append(self._open[:_LONGEST])
            self._open = self._open[_LONGEST:]
        return found

    def end(self) -> list[bytes]:
        """Returns the last line, which has no line end."""
        rest, self._open = _last_written(self._open), b""
        return [rest] if rest else []


def _last_written(line: bytes, *, open_line: bool = False) -> bytes:
    """Returns the text after the last carriage return; an open line keeps a final one."""
    parts = line.split(b"\r")
    written = next((part for part in reversed(parts) if part), b"")
    return written + b"\r" if open_line and not parts[-1] and written else written


class Stream:
    """stdout or stderr of an instance.

    Args:
        index: The instance's number.
        name: "stdout" or "stderr".
        out: Where its lines go, or None.
        folder: The folder for a separate file, or None.

    Raises:
        OutputError: The file cannot be written.
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
        """Passes on the instance's output. Raises OutputError."""
        if self._file is not None:
            try:
                write_all(self._file.fileno(), data)
            except OSError as error:
                self._file.close()
                self._file = None
                raise self._cannot_write(error) from None
        self._pass_on(self._lines.add(data))

    def end(self) -> None:
        """Passes on the last line and closes the file: no more output comes."""
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
        """Returns the last lines, tagged."""
        return b"".join(self._tag + line + b"\n" for line in self._last)
