"""Folders and files that nobody else can have laid out for us: lock files, logs, traces.

A folder is ours when this user owns it and nobody else can write in it; links are not followed.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from poptorch_core import Error
from poptorch_core.writable import cannot_write


def runtime_folder() -> Path:
    """Where this user's programs keep what they share: $XDG_RUNTIME_DIR/poptorch if there is such
    a folder of this user's, else one in the folder of temporary files."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(given):
        try:
            if os.stat(given).st_uid == os.geteuid():
                return Path(given, "poptorch")
        except OSError:
            pass
    return Path(tempfile.gettempdir(), f"poptorch-{os.geteuid()}")


def open_private(path: Path, what: str) -> int:
    """Opens a folder of mode 0700, made if there is none; the caller closes the file descriptor.

    So is every folder between it and the runtime folder, where it is in that one.
    what: who needs it, for messages. Raises poptorch.Error for what is no folder, a link, not this
    user's, open to others, or in a folder where others could replace it.
    """
    runtime = runtime_folder()
    first = runtime if path.is_relative_to(runtime) else path
    names = [first.name, *path.relative_to(first).parts]
    try:
        first.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(first.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _check_parent(file, first.parent, what)
        for name in names:
            file = _open_next(name, file, path, what)
        return file
    except OSError as error:
        raise Error(
            f"[{what}] the folder {str(path)!r} cannot be used: {error.strerror}. Choose another "
            "folder, or remove what is there."
        ) from None


def _open_next(name: str, parent: int, path: Path, what: str) -> int:
    """The folder of that name in an open one, which is closed."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=parent)
    finally:
        os.close(parent)
    status = os.fstat(file)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid() or mode & 0o077:
        os.close(file)
        raise Error(
            f"[{what}] the folder {name} of {str(path)!r} is of user {status.st_uid} with mode "
            f"{mode:04o}, but must be of user {os.geteuid()} with mode 0700. Choose another "
            "folder, or correct this one."
        )
    return file


def _check_parent(file: int, path: Path, what: str) -> None:
    status = os.fstat(file)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (os.geteuid(), 0) or (mode & 0o022 and not mode & stat.S_ISVTX):
        os.close(file)
        raise Error(
            f"[{what}] others can write in {str(path)!r} (user {status.st_uid}, mode {mode:04o}). "
            "Choose a folder of your own."
        )


def open_own(name: str, folder: int) -> int:
    """Opens a plain file of this user's in a folder, for reading and writing; made if needed.

    OSError for anything else of that name.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(name, flags, 0o600, dir_fd=folder)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(file)
        raise OSError(None, "it is no plain file of this user's")
    return file


def write_text(path: Path, text: str, what: str) -> None:
    """Writes a file, whose folder is made if needed.

    Raises poptorch.Error where that cannot be, or where a link is in its place.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise cannot_write(path, what, error) from None
