"""Reports of sessions: who asks for them, and what they say beside the program."""

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
    """Where the report of a session goes; None: nobody asks for one.

    Raises poptorch_core.Error where it cannot be written, before anything is compiled for it.
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
    """Writes the report of what was just compiled: now, and once more when the session is gone or
    the process ends. Only then is what does not fit told. folder: see folder_of."""
    if folder is not None:
        from poptorch_core.reports import recording

        def log(text: str) -> None:
            _core.log(_ERROR, text)

        recording.record(session, executable, _about(ir), folder, log)
        executable.check_memory("")


def write(ir: Ir, executable: _core.Executable, folder: "str | os.PathLike[str]") -> None:
    """Writes the report of a session as it is now."""
    from poptorch_core.reports import recording

    recording.write(Path(folder), executable, _about(ir))


def _about(ir: Ir) -> dict[str, Any]:
    return {"name": "popxl", "kind": "popxl", "class": type(ir).__name__}
