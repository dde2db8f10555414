"""Writes the report of a compiled model: after compilation, and again with measurements."""

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from poptorch_core import Error
from poptorch_core.reports import data as columns, files
from poptorch_core.reports.advice import advise

_taken: set[Path] = set()
Host = Callable[[], list[dict[str, Any]]]  # returns events of this host, in the format of traces


def write(folder: Path, executable: Any, about: dict[str, Any], host: Host = list) -> None:
    """Writes the report of a compiled model into a folder.

    Args:
        folder: The folder.
        executable: The compiled model.
        about: See data.make.
        host: Returns events of this host for the trace.

    Raises:
        poptorch.Error: The folder or a file cannot be written.
    """
    files.write(folder, data_of(executable, about), host=host())


def data_of(executable: Any, about: dict[str, Any]) -> dict[str, Any]:
    """Returns the data of a compiled model's report, with advice.

    Args:
        executable: The compiled model.
        about: See data.make.
    """
    data = columns.make(executable, about)
    return {**data, "advice": advise(data)}


def record(owner: Any, executable: Any, about: dict[str, Any], folder: Path,
           log: Callable[[str], object], host: Host = list) -> Path:  # fmt: skip
    """Writes the report, and again with measurements when `owner` or the process ends.

    Args:
        owner: The object whose end triggers the second report.
        executable: The compiled model.
        about: See data.make.
        folder: The folder. A second model of this process with the same folder gets the folder "2"
            in it, and so on.
        log: Gets the error text if the second report cannot be written.
        host: Returns events of this host for the trace.

    Returns:
        The folder of the report.

    Raises:
        poptorch.Error: The first report cannot be written.
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
    # The report is made again, because another process may have replaced the files meanwhile.
    if os.getpid() != process or not executable.report()["runs"] or not folder.exists():
        return
    try:
        write(folder, executable, about, host)
    except Error as error:
        log(error.message)
