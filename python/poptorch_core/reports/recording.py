"""The report of a compiled model: written when it is made, and again with what was measured."""

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from poptorch_core import Error
from poptorch_core.reports import data as columns, files
from poptorch_core.reports.advice import advise

_taken: set[Path] = set()
Host = Callable[[], list[dict[str, Any]]]  # gives events of this host, as traces have them


def write(folder: Path, executable: Any, about: dict[str, Any], host: Host = list) -> None:
    """Writes the report of a compiled model into a folder.

    about: see data.make. Raises poptorch.Error where nothing can be written.
    """
    files.write(folder, data_of(executable, about), host=host())


def data_of(executable: Any, about: dict[str, Any]) -> dict[str, Any]:
    """The data of a compiled model's report, with advice."""
    data = columns.make(executable, about)
    return {**data, "advice": advise(data)}


def record(owner: Any, executable: Any, about: dict[str, Any], folder: Path,
           log: Callable[[str], object], host: Host = list) -> Path:  # fmt: skip
    """write(), and once more when `owner` is gone or the process ends: then with what was measured.
    Gives the folder.

    folder: a second model of this process that names the same one gets the folder "2" in it, and so
    on. log: takes an error of the second time, when there is nobody to raise it to.
    """
    place = _own(folder)
    write(place, executable, about, host)
    weakref.finalize(owner, _finish, place, executable, about, os.getpid(), log, host)
    return place


def _own(folder: Path) -> Path:
    number, place = 1, folder
    while place.absolute() in _taken:
        number += 1
        place = folder / str(number)
    _taken.add(place.absolute())
    return place


def _finish(folder: Path, executable: Any, about: dict[str, Any], process: int,
            log: Callable[[str], object], host: Host) -> None:  # fmt: skip
    # Made anew rather than read back: what is there may by now be another process's.
    if os.getpid() != process or not executable.report()["runs"] or not folder.exists():
        return
    try:
        write(folder, executable, about, host)
    except Error as error:
        log(error.message)
