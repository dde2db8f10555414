"""Rewrites of graphs before views are settled.

The compiler simplifies a session's copy of the program by itself; graphs stay as written.
"""

import popxl

LEVELS = ("all", "default", "minimal", "none")


def apply_pre_alias_patterns(graph: "popxl.Graph | popxl.Ir", level: str = "all") -> None:
    """Marks a graph or Ir as simplified. ValueError for another level than those of `LEVELS`."""
    if level.lower() not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS} but is {level!r}.")
