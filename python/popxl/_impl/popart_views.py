"""Functions that present popxl's objects through PopART's interface.

popart defines them and depends on popxl, so popxl calls them through this table. popart fills it
when it is imported, which `import popxl` does last.
"""

from collections.abc import Callable
from typing import Any

ir: Callable[[Any], Any]
graph: Callable[[Any], Any]
tensor: Callable[[Any], Any]
op: Callable[[Any], Any]
replica_grouping: Callable[[int, int, int], Any]
data_type: Callable[[Any], Any]
session: Callable[[Any, Any], Any]
device: Callable[[str, int], Any]


def provide(**views: Callable[..., Any]) -> None:
    """Sets the functions named above."""
    globals().update(views)
