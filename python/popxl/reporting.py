"""Reports of sessions: who asks for them, and what they say beside the program."""

import os
from pathlib import Path
from typing import Any

from poptorch_core import _core
from poptorch_core.reports import asked
from popxl.ir import Ir
from popxl.records import of

_WARNING, _ERROR = 3, 4  # levels of the core's log


def begin(session: object, ir: Ir, executable: _core.Executable) -> None:
    """Writes the report of what was just compiled, if somebody asks for it: now, and once more when
    the session is gone or the process ends."""
    options = ir._pb_ir.getSessionOptions().engineOptions
    folder = asked.folder(options, lambda text: _core.log(_WARNING, text))
    if folder is not None:
        number = of(ir).replicas.instance
        folder = folder / f"instance_{number}" if number else folder
        from poptorch_core.reports import recording

        def log(text: str) -> None:
            _core.log(_ERROR, text)

        recording.record(session, executable, _about(ir), folder, log)


def write(ir: Ir, executable: _core.Executable, folder: "str | os.PathLike[str]") -> None:
    """Writes the report of a session as it is now."""
    from poptorch_core.reports import recording

    recording.write(Path(folder), executable, _about(ir))


def _about(ir: Ir) -> dict[str, Any]:
    return {"name": "popxl", "kind": "popxl", "class": type(ir).__name__}
