"""Rewrites of graphs, which have no effect here.

The compiler always simplifies a session's copy of the program; graphs stay as written.
"""

import popxl

LEVELS = ("no_patterns", "minimal", "default", "all")


def apply_pre_alias_patterns(ir: "popxl.Ir | popxl.Graph", level: str = "default") -> None:
    """Accepts an Ir or a graph without effect. Raises ValueError for a level not in `LEVELS`."""
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS} but is {level!r}.")
