"""Writes files completely or not at all, whatever happens during writing.

The core (support/whole_file.hpp) writes under a temporary name, syncs the file, and renames it.
"""

import io
import os
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from poptorch_core import _core

_BUFFER_BYTES = 1 << 18


def write_whole(
    path: str | os.PathLike, write: Callable[[BinaryIO], Any], what: str = "file"
) -> None:
    """Writes the file `path`, of mode 0600; a link there is replaced.

    If this process is killed or the machine stops at any time, either the former file or the new
    one exists. After an error or exception the former file exists, without a temporary file. Only
    if the last step fails, which syncs the folder, the new file exists.

    Args:
        path: The file.
        write: Gets a stream that can only be written. An error of the disk is raised after it
            returns.
        what: The tag of messages.

    Raises:
        poptorch.Error: The file cannot be written.
    """
    file = _core.WholeFile(os.fspath(path), what)
    try:
        raw = _Raw(file)
        with io.BufferedWriter(raw, buffer_size=_BUFFER_BYTES) as stream:
            write(cast(BinaryIO, stream))
        if raw.error is not None:
            raise raw.error
        file.commit()
    finally:
        file.discard()


class _Raw(io.RawIOBase):
    """Writes into a file of the core.

    Keeps the first error and then writes nothing more, because the caller may be C++ code through
    which exceptions cannot pass.
    """

    def __init__(self, file: _core.WholeFile) -> None:
        self._file = file
        self.error: BaseException | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self.error is None:
            try:
                self._file.write(view)
            except BaseException as error:
                self.error = error
        return len(view)
