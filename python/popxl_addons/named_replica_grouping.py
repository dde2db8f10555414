"""Groupings of replicas: by name, by instances (processes), and by the links between IPUs."""

from collections.abc import Iterable

import popxl
from poptorch_core.variables import json_object
from popxl_addons.dot_tree import DotTree

_DOMAIN = 64  # the default number of replicas that are linked directly


class NamedReplicaGrouping(DotTree[popxl.ReplicaGrouping]):
    """Groupings of replicas by name."""

    @classmethod
    def build_groups(
        cls, names: "Iterable[str]", value: popxl.ReplicaGrouping
    ) -> "NamedReplicaGrouping":
        """Makes a collection with the same grouping under every name.

        Args:
            names: The names.
            value: The grouping.
        """
        return cls.from_dict({name: value for name in names})


def fill_none_group(replica_grouping: "popxl.ReplicaGrouping | None") -> popxl.ReplicaGrouping:
    """Returns the grouping; None becomes all replicas of the current Ir."""
    return replica_grouping or popxl.gir().replica_grouping()


def _is_cross(rg: popxl.ReplicaGrouping, size: int) -> bool:
    return rg.group_size * rg.stride > size


def _within(rg: popxl.ReplicaGrouping, size: int, what: str) -> popxl.ReplicaGrouping:
    """Returns the part of each group inside a block of `size` consecutive replicas."""
    assignment = rg.assignment
    if len(assignment) <= size:
        return rg
    patterns = set()
    for first in range(0, len(assignment), size):
        numbers: dict[int, int] = {}
        block = assignment[first : first + size]
        patterns.add(tuple(numbers.setdefault(group, len(numbers)) for group in block))
    if not rg.is_const or len(patterns) > 1:
        raise ValueError(f"{rg!r} must group the {size} replicas of every {what} equally.")
    if not _is_cross(rg, size):
        return rg
    if rg.stride > size:
        raise ValueError(f"{rg!r} has a stride beyond the {size} replicas of an {what}.")
    return popxl.gir().replica_grouping(rg.stride, size // rg.stride)


def get_instance_replica_grouping(
    replica_grouping: "popxl.ReplicaGrouping | None" = None,
) -> popxl.ReplicaGrouping:
    """Returns the part of each group inside one instance.

    Args:
        replica_grouping: The groups; by default all replicas.

    Raises:
        ValueError: Instances would be grouped differently, or the stride is beyond an instance's
            replicas.
    """
    rg = fill_none_group(replica_grouping)
    return _within(rg, popxl.gir().instance_replication_factor, "instance")


def is_cross_instance(rg: popxl.ReplicaGrouping) -> bool:
    """Returns whether groups have replicas of several instances."""
    return _is_cross(rg, popxl.gir().instance_replication_factor)


def get_ild_size_from_popdist() -> int:
    """Returns the number of replicas that are linked directly (an IPU-Link domain).

    It is ipuLinkDomainSize in the JSON of POPLAR_TARGET_OPTIONS, else all replicas up to 64.
    """
    options = json_object("POPLAR_TARGET_OPTIONS", {"ipuLinkDomainSize": "64"})
    size = options.get("ipuLinkDomainSize")
    return min(popxl.gir().replication_factor, _DOMAIN) if size is None else int(size)


def get_ild_replica_grouping(
    rg: "popxl.ReplicaGrouping | None" = None,
) -> popxl.ReplicaGrouping:
    """Returns the part of each group that is linked directly; see the instances' grouping."""
    return _within(fill_none_group(rg), get_ild_size_from_popdist(), "domain")


def is_cross_ild(rg: popxl.ReplicaGrouping) -> bool:
    """Returns whether groups have replicas that are not linked directly."""
    return _is_cross(rg, get_ild_size_from_popdist())
