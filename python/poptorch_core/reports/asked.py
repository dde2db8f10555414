"""Reads requests for reports from POPLAR_ENGINE_OPTIONS and the engine options of a program."""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from poptorch_core import Error
from poptorch_core.variables import json_object

_VARIABLE = "POPLAR_ENGINE_OPTIONS"
_DIRECTORY = "autoReport.directory"
# Each of these options requests the whole report, which is one file.
_REPORTS = (
    "autoReport.all",
    "autoReport.outputArchive",
    "autoReport.outputDebugInfo",
    "autoReport.outputExecutionProfile",
    "autoReport.outputGraphProfile",
    "autoReport.outputLoweredVars",
    "autoReport.outputSerializedGraph",
)
# The other options set how much Poplar's profiler records. Here a report is always complete.
_KNOWN = (*_REPORTS, _DIRECTORY, "autoReport.outputProfilerFormat", "autoReport.streamAtEachRun",
          "autoReport.executionProfileProgramRunCount")  # fmt: skip


def folder(engine_options: Mapping[str, Any], warn: Callable[[str], object]) -> Path | None:
    """Returns the folder for a program's reports.

    The environment's POPLAR_ENGINE_OPTIONS, a JSON object, overrides the program's options.

    Args:
        engine_options: The program's engine options.
        warn: Gets a sentence if the variable overrides an option, or names an unknown report.

    Returns:
        The folder, or None if no report is requested.

    Raises:
        poptorch.Error: The variable is not a JSON object, or a value is not a truth value.
    """
    given = json_object(_VARIABLE, {"autoReport.all": "true"})
    for name in sorted(given):
        if name.startswith("autoReport.") and name not in _KNOWN:
            near = difflib.get_close_matches(name, _KNOWN, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            warn(f"{_VARIABLE} names {name!r}, which has no effect.{hint}")
    overridden = [
        f"{name}={engine_options[name]!r} by {given[name]!r}"
        for name in sorted(engine_options.keys() & given.keys())
        if str(engine_options[name]) != str(given[name])
    ]
    if overridden:
        warn(f"{_VARIABLE} overrides the program's engine options: {', '.join(overridden)}.")
    said = {**engine_options, **given}
    if not any(_truth(name, said[name]) for name in _REPORTS if name in said):
        return None
    return Path(str(said.get(_DIRECTORY, ".")) or ".")


def _truth(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise Error(
            f'[profiling] the engine option {name} is {value!r}. Set it to "true" or "false".'
        )
    return text == "true"
