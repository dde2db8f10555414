"""`python -m poptorch cache`: shows and prunes a folder of enableExecutableCaching.

The format is that of compile/cache.hpp.
"""

import json
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from poptorch._impl.options import environment
from poptorch_core import Error, _torch

_SUFFIX = ".poptorch"
_DAY = 24 * 60 * 60
_MIB = 2**20


def list_entries(given: Namespace) -> int:
    """Prints key, size and time of the last use of each entry.

    given.json: whether to print JSON, here and in the other commands.
    """
    entries = _entries(_folder(given))
    if given.json:
        abouts = [(path, path.stat()) for path in entries]
        _print([{"key": path.stem, "bytes": about.st_size, "used": about.st_mtime}
                for path, about in abouts])  # fmt: skip
        return 0
    for path in entries:
        about = path.stat()
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(about.st_mtime))
        print(f"{path.stem}  {about.st_size / _MIB:8.2f} MiB  used {used}")
    print(f"{len(entries)} entries, {sum(path.stat().st_size for path in entries) / _MIB:.2f} MiB")
    return 0


def verify(given: Namespace) -> int:
    """Reads every entry; returns 1 if one is damaged."""
    damaged: list[str] = []
    entries = _entries(_folder(given))
    for path in entries:
        try:
            file = _torch.ExecutableFile(str(path))
            for section in file.sections():
                file.read(section)
        except Error as error:
            damaged.append(error.message)
    if given.json:
        _print({"entries": len(entries), "damaged": damaged})
    else:
        print(*damaged, f"{len(entries)} entries, {len(damaged)} damaged", sep="\n")
    return 1 if damaged else 0


def prune(given: Namespace) -> int:
    """Removes the entries that the arguments select; without arguments, all entries."""
    entries = _entries(_folder(given))
    kept = 0.0
    removed: list[str] = []
    for path in entries:
        about = path.stat()
        mib = about.st_size / _MIB
        is_old = (
            given.unused_days is not None
            and time.time() - about.st_mtime > given.unused_days * _DAY
        )
        is_much = given.to_mib is not None and kept + mib > given.to_mib
        if is_old or is_much or (given.unused_days is None and given.to_mib is None):
            path.unlink(missing_ok=True)
            removed.append(path.stem)
        else:
            kept += mib
    if given.json:
        _print({"entries": len(entries), "removed": removed})
    else:
        print(f"{len(removed)} of {len(entries)} entries removed")
    return 0


def _print(value: object) -> None:
    print(json.dumps(value, indent=1))


def _folder(given: Namespace) -> Path:
    name = given.folder or environment.text("POPTORCH_CACHE_DIR")
    if not name:
        raise Error("no folder was named. Pass one, or set POPTORCH_CACHE_DIR.")
    if not Path(name).is_dir():
        raise Error(f"there is no folder {name}.")
    return Path(name)


def _entries(folder: Path) -> list[Path]:
    """Returns the entries; the last used one is first."""

    def found() -> Iterator[tuple[float, Path]]:
        for path in folder.glob(f"*{_SUFFIX}"):
            if not path.name.startswith("."):
                yield -path.stat().st_mtime, path

    return [path for _, path in sorted(found())]
