"""Files that are there whole or not at all, whatever happens while they are written.

A file is written beside its place under a temporary name that its writer has locked, is brought to
the disk, and then takes the place of the former one. What a killed writer has left is removed by
the next one in that folder: its lock is gone with it.
"""

import contextlib
import errno
import fcntl
import io
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from poptorch_core import Error, _core

_PREFIX, _SUFFIX = ".poptorch-", ".tmp"
_CURES = {
    errno.ENOSPC: "Make room there, or choose another disk.",
    errno.EDQUOT: "Make room there, or choose another disk.",
    errno.EFBIG: "Choose a file system, or a limit, that allows files of this size.",
    errno.ENOENT: "Make the folder first.",
    errno.ENOTDIR: "Choose a path whose folders are folders.",
    errno.EISDIR: "Name a file, not a folder.",
    errno.EACCES: "Choose a folder that you can write in.",
    errno.EPERM: "Choose a folder that you can write in.",
    errno.EROFS: "Choose a folder that you can write in.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}


def write_whole(
    path: str | os.PathLike, write: Callable[[BinaryIO], Any], what: str = "file"
) -> None:
    """Makes the file `path`, of mode 0600, from what `write` writes; a link there is replaced.

    After a kill at any time, of this process or the machine, there is the former file or the new
    one. After an error or exception there is the former, and nothing beside it; only where the
    very last step fails, to note the new name on the disk, the new one.

    write: gets a stream that can only be written; its OSErrors come at the end.
    what: the beginning of messages. Raises poptorch.Error for what cannot be written.
    """
    place = Path(os.fspath(path))
    try:
        if place.is_dir() and not place.is_symlink():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _remove_abandoned(folder)
            with _temporary(folder) as (name, file):
                _fill(file, write)
                _core.meet_fault("save")
                os.fsync(file)
                _core.meet_fault("save")
                os.replace(name, place.name, src_dir_fd=folder, dst_dir_fd=folder)
                _core.meet_fault("save")
            _note_on_disk(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise Error(
            f"[{what}] {str(place)!r} cannot be written: {error.strerror or error}. "
            f"{_CURES.get(error.errno or 0, 'Choose another disk.')}"
        ) from None


def _note_on_disk(folder: int) -> None:
    """Brings the names in a folder to the disk, where its file system can do that."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _fill(file: int, write: Callable[[BinaryIO], Any]) -> None:
    raw = _Raw(file)
    with io.BufferedWriter(raw, buffer_size=1 << 18) as stream:
        write(cast(BinaryIO, stream))
    if raw.error is not None:
        raise raw.error


class _Raw(io.RawIOBase):
    """Writes to a file descriptor that stays open. It keeps the first error, and writes nothing
    from there on: what writes into it may be C++, through which no exception goes."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        _core.meet_fault("save")
        view = memoryview(data).cast("B")
        size = len(view)
        while len(view) and self.error is None:
            try:
                done = os.write(self._file, view)
                if done == 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                view = view[done:]
            except OSError as error:
                self.error = error
        return size


@contextlib.contextmanager
def _temporary(folder: int) -> Iterator[tuple[str, int]]:
    """Name and descriptor of a new file, locked by us; it is removed if it is still there."""
    while True:
        name = f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(name, flags, 0o600, dir_fd=folder)
        try:
            if not _locked(file):
                continue  # another writer takes it for abandoned
            yield name, file
            return
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            os.close(file)


def _locked(file: int) -> bool:
    """Locks a file that still has a name; False where another has the lock or has removed it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody removes what cannot be locked
        return True
    return os.fstat(file).st_nlink > 0


def _remove_abandoned(folder: int) -> None:
    """Removes temporaries of this user's whose writers are gone. What cannot be looked at stays."""
    for name in os.listdir(folder):
        if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
            continue
        with contextlib.suppress(OSError):
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK,
                           dir_fd=folder)  # fmt: skip
            try:
                status = os.fstat(file)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(file)
