"""Lines of the compiler's description of an execution that depend on the model.

A line is (keyword, name, options by name): see poptorch_core._core.option_table(). core_table.py
makes the lines that depend on poptorch.Options.
"""

from collections.abc import Iterable, Mapping

from poptorch._impl.options.core_table import Line
from poptorch.enums import OutputMode
from poptorch_core import _core


def anchor_lines(requests: Iterable[tuple[str, OutputMode | int, int]]) -> list[Line]:
    return [
        ("anchor", name, {"mode": OutputMode(mode).name, "period": period})
        for name, mode, period in requests
    ]


def group_lines(groups: Mapping[str, _core.ReplicaGroup]) -> list[Line]:
    return [
        (
            "replica_group",
            name,
            {"size": one.size, "stride": one.stride, "all_replicas": one.all_replicas},
        )
        for name, one in groups.items()
    ]


def optimiser_lines(spec: dict | None, separate_steps: bool = False) -> list[Line]:
    """Returns the lines of an optimiser's description.

    separate_steps: each parameter has its own number of updates.
    """
    if spec is None:
        return []
    plain = {name: value for name, value in spec.items() if name not in ("kind", "groups")}
    groups = [
        {"parameters": group["parameters"], "variable": group["variable"], **group["values"]}
        for group in spec["groups"]
    ]
    if separate_steps:
        groups = [{**group, "separate_steps": 1.0} for group in groups]
    numbered = [("optimiser_group", str(i), group) for i, group in enumerate(groups)]
    return [("optimiser", spec["kind"], plain), *numbered]
