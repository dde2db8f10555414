"""Writes and reads the files in a report's folder."""

import functools
import json
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO

from poptorch_core import Error, _core
from poptorch_core.reports import archive, page, traces
from poptorch_core.whole_files import write_whole

_DATA = "report.json"
_SCHEMA = "report.schema.json"
# Programs that were made for PopVision look for the second name.
_NAMES_OF_DATA = (_DATA, "profile.pop")
# The columns that describe the origin of instructions.
_ORIGIN = ("ipu", "kind", "op", "name", "module", "block", "file", "line", "op_id")


def write(
    folder: Path,
    data: dict[str, Any],
    other: dict[str, Any] | None = None,
    host: Sequence[dict[str, Any]] = (),
) -> None:
    """Writes all files of a report. Each file is written completely or not at all.

    Args:
        folder: The folder, which is created if needed.
        data: The content of report.json, see docs/profiling.md.
        other: The data of the report to compare with, if any.
        host: Events of the host for the trace.

    Raises:
        poptorch.Error: The folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(
            f"[profiling] the folder {str(folder)!r} cannot be created: {error.strerror}. Choose "
            "another one."
        ) from None
    text = json.dumps(data, separators=(",", ":")).encode()
    files = {
        **dict.fromkeys(_NAMES_OF_DATA, text),
        _SCHEMA: (resources.files(__name__.rpartition(".")[0]) / _SCHEMA).read_bytes(),
        "debug.cbor": _core.cbor(json.dumps(_origins(data))),
        "archive.a": archive.packed(_forms(data)),
        "trace.json": json.dumps(traces.of(data, host), separators=(",", ":")).encode(),
        "report.html": page.html(data, other).encode(),
    }
    for name, content in files.items():
        write_whole(folder / name, functools.partial(_copy, content), "profiling")


def read(place: Path) -> dict[str, Any]:
    """Reads the data of a report.

    Args:
        place: The folder of a report, or a file that holds the data.

    Raises:
        poptorch.Error: The place does not hold a report, or one of another version.
    """
    file = place / _DATA if os.path.isdir(place) else place
    try:
        data = json.loads(file.read_bytes())
    except OSError as error:
        raise Error(
            f"[profiling] {str(file)!r} cannot be read: {error.strerror}. Name a folder that "
            f"holds a report ({_DATA}), or the file of an executable."
        ) from None
    except (ValueError, RecursionError):
        raise Error(
            f"[profiling] {str(file)!r} holds no report: it is not JSON. Name a folder that holds "
            f"one ({_DATA}), or the file of an executable."
        ) from None
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != FORMAT:
        raise Error(
            f"[profiling] {str(file)!r} holds no report of version {FORMAT[1]}. Write it again "
            "with this version."
        )
    return data


FORMAT = ("poptorch-report", 1)


def _copy(content: bytes, stream: BinaryIO) -> None:
    stream.write(content)


def _origins(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "strings": data["strings"],
        "instructions": {name: data["instructions"][name] for name in _ORIGIN},
    }


def _forms(data: dict[str, Any]) -> dict[str, bytes]:
    """Returns the lines of each IR stage, by the name of the archive's member.

    A column of text may hold indices of strings.
    """
    strings = data["strings"]
    return {
        f"{form[:12]}.ir": "\n".join(
            strings[line] if isinstance(line, int) else line for line in table["text"]
        ).encode()
        for form, table in data["graph"]["forms"].items()
    }
