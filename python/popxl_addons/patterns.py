"""Rewrites of graphs before views are settled.

The compiler simplifies a session's copy of the program by itself; graphs stay as written.
"""

import popxl

LEVELS = ("no_patterns", "minimal", "default", "all")


def apply_pre_alias_patterns(ir: "popxl.Ir | popxl.Graph", level: str = "default") -> None:
    """Marks an Ir, or a graph, as simplified. ValueError for a level that is not of `LEVELS`."""
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS} but is {level!r}.")
