"""Reports of sessions: whether the options ask for one, and where it is written."""

import os
from pathlib import Path
from typing import Any

from poptorch_core import _core
from poptorch_core.reports import asked
from poptorch_core.writable import check_writable
from popxl._impl.records import of
from popxl.ir import Ir

_WARNING, _ERROR = 3, 4  # levels of the core's log


def folder_of(ir: Ir) -> Path | None:
    """Returns the folder for the report of a session; None if no option asks for a report.

    Raises:
        poptorch_core.Error: The report cannot be written. It is raised before compilation.
    """
    options = ir._pb_ir.getSessionOptions().engineOptions
    folder = asked.folder(options, lambda text: _core.log(_WARNING, text))
    if folder is None:
        return None
    number = of(ir).replicas.instance
    folder = folder / f"instance_{number}" if number else folder
    check_writable(folder, "profiling")
    return folder


def begin(session: object, ir: Ir, executable: _core.Executable, folder: Path | None) -> None:
    """Writes the report of a compiled session: now, and again when the session or process ends.

    It checks the memory after the report is written, so that a program that does not fit still has
    a report.

    Args:
        session: The session.
        ir: Its program.
        executable: The compiled program.
        folder: The result of folder_of.
    """
    if folder is not None:
        from poptorch_core.reports import recording

        def log(text: str) -> None:
            _core.log(_ERROR, text)

        recording.record(session, executable, _about(ir), folder, log)
        executable.check_memory("")


def write(ir: Ir, executable: _core.Executable, folder: "str | os.PathLike[str]") -> None:
    """Writes the current report of a session."""
    from poptorch_core.reports import recording

    recording.write(Path(folder), executable, _about(ir))


def _about(ir: Ir) -> dict[str, Any]:
    return {"name": "popxl", "kind": "popxl", "class": type(ir).__name__}
