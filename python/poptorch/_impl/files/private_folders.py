"""Private folders and files for lock files, logs and traces.

A folder is private if this user owns it and no other user can write in it. Links are not followed.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from poptorch_core import Error
from poptorch_core.writable import cannot_write


def runtime_folder() -> Path:
    """Returns the folder for files that this user's programs share.

    It is $XDG_RUNTIME_DIR/poptorch if this user owns $XDG_RUNTIME_DIR, else a folder among the
    temporary files.
    """
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(given):
        try:
            if os.stat(given).st_uid == os.geteuid():
                return Path(given, "poptorch")
        except OSError:
            pass
    return Path(tempfile.gettempdir(), f"poptorch-{os.geteuid()}")


def open_private(path: Path, what: str) -> int:
    """Opens or creates a folder of mode 0700; the caller closes the returned file descriptor.

    If it is in the runtime folder, the folders between have mode 0700, too.
    what: the tag of messages. Raises poptorch.Error if it is not a folder, is a link, belongs to or
    is open to another user, or if others could replace it.
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
    """Opens or creates a folder in the open folder `parent`, which is closed."""
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
            "Choose a folder that only you can write in."
        )


def open_own(name: str, folder: int) -> int:
    """Opens or creates a regular file of this user in a folder, for reading and writing.

    Raises OSError if anything else has that name.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(name, flags, 0o600, dir_fd=folder)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(file)
        raise OSError(None, "it is not a regular file of this user")
    return file


def write_text(path: Path, text: str, what: str) -> None:
    """Writes a file and creates its folder if necessary.

    Raises poptorch.Error if that fails, or if a link has that name.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise cannot_write(path, what, error) from None
