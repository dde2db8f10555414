"""`python -m poptorch report`: writes reports of executables, and compares reports."""

import contextlib
import json
import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poptorch_core import Error, _core, _torch
from poptorch_core.reports import files, recording


def make(given: Namespace) -> int:
    """Writes the report of given.place into given.to; prints the bottleneck and advice.

    given.compare: the report, or executable, to compare with, or None.
    given.json: whether to print JSON.
    """
    compared = None if given.compare is None else _one(Path(given.compare))
    other = None if compared is None else _data(compared)
    place, to = Path(given.place), Path(given.to)
    found = _found(place)
    made = []
    for one in found:
        data = _data(one)
        with _telling_damage(one, compared):
            folder = to if len(found) == 1 else to / one.relative_to(place)
            files.write(folder, data, other)
            made.append(_findings(data, folder))
            if not given.json:
                _print(made[-1])
    if given.json:
        print(json.dumps(made, indent=1))
    return 0


@contextlib.contextmanager
def _telling_damage(*places: Path | None) -> Iterator[None]:
    """Converts exceptions that damaged reports cause in the body into poptorch.Error."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        named = " or ".join(repr(str(place)) for place in places if place is not None)
        raise Error(
            f"[profiling] the report of {named} is damaged, or of another release "
            f"({type(error).__name__}: {error}). Write it again."
        ) from None


def _found(place: Path) -> list[Path]:
    """Returns the places of reports: the place, or the folders in an autoReport.directory."""
    # Path.exists would raise for a folder without permission.
    if os.path.exists(place / "report.json") or not os.path.isdir(place):
        return [place]
    return sorted(file.parent for file in place.glob("**/report.json")) or [place]


def _one(place: Path) -> Path:
    found = _found(place)
    if len(found) > 1:
        names = ", ".join(str(one) for one in found)
        raise Error(f"[profiling] {str(place)!r} has several reports. Name one: {names}.")
    return found[0]


def _findings(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns what the command prints of a report."""
    return {
        "name": data["model"]["name"],
        "page": str(folder / "report.html"),
        "summary": data["summary"],
        "advice": data["advice"],
    }


def _print(found: dict[str, Any]) -> None:
    summary = found["summary"]
    share = summary["shares"][summary["bound_by"]]
    print(f"{found['name']}: {summary['cycles_per_run']:,} cycles a run, of which "
          f"{100 * share:.0f} % {summary['bound_by']}")  # fmt: skip
    for advice in found["advice"]:
        print(f"- {advice['text']} {advice['cure']}")
    print(f"Wrote {found['page']}")


def _data(place: Path) -> dict[str, Any]:
    """Returns the data of a report, given by its folder or a file of it, or of an executable."""
    if os.path.isdir(place) or not _is_executable(place):
        return files.read(place)
    file = _torch.ExecutableFile(str(place))
    program = file.read("program").decode()
    name = place.stem
    if "wrapper" in file.sections() and (said := json.loads(file.read("wrapper"))):
        kind = "training" if said.get("training") else "inference"
    else:
        kind = "program"
    executable = _core.load(program)
    return recording.data_of(executable, {"name": name, "kind": kind, "class": ""})


def _is_executable(place: Path) -> bool:
    try:
        with open(place, "rb") as file:
            return file.read(8) == b"POPTORCH"
    except OSError as error:
        raise Error(
            f"[profiling] {str(place)!r} cannot be read: {error.strerror}. Name the folder of a "
            "report, or the file of an executable."
        ) from None
