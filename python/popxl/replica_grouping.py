"""Groups of replicas that share a value or take part in one collective."""

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from poptorch_core import group_numbers
from popxl._impl import popart_views
from popxl._impl.records.link import made


class VariableRetrievalMode(IntEnum):
    """The replicas whose values of a variable the host gets."""

    OnePerGroup = group_numbers.ONE_PER_GROUP
    AllReduceReplicas = group_numbers.ALL_REDUCE_REPLICAS
    AllReplicas = group_numbers.ALL_REPLICAS


RETRIEVAL_MODES = {
    "one_per_group": VariableRetrievalMode.OnePerGroup,
    "all_replicas": VariableRetrievalMode.AllReplicas,
}


class VariableSettings:
    """The relation between a variable's data on the host and on replicas.

    Args:
        stride: The stride of the groups of replicas that share a value.
        group_size: Their size; 0: all replicas form one group.
        retrieval_mode: The replicas whose values the host gets.
    """

    def __init__(
        self,
        stride: int = 1,
        group_size: int = 0,
        retrieval_mode: VariableRetrievalMode = VariableRetrievalMode.OnePerGroup,
    ) -> None:
        self._stride, self._size, self._mode = stride, group_size, retrieval_mode

    def getStride(self) -> int:
        """Returns the distance of neighbours in a group."""
        return self._stride

    def getGroupSize(self) -> int:
        """Returns the number of replicas in a group."""
        return self._size

    def getRetrievalMode(self) -> VariableRetrievalMode:
        """Returns which replicas' values the host gets."""
        return self._mode

    def isUsingCommGroup(self) -> bool:
        """Returns False: stride and size define the groups."""
        return False

    def groups(self, replicas: int) -> list[list[int]]:
        """Returns the replicas of each group, for this number of replicas.

        Args:
            replicas: The number of replicas.
        """
        grouping = make_grouping(replicas, self._stride, self._size or None)
        return replicas_by_group(grouping)

    def getGroupCount(self, replicas: int) -> int:
        """Returns the number of groups, for this number of replicas.

        Args:
            replicas: The number of replicas.
        """
        return len(self.groups(replicas))

    def numReplicasReturningVariable(self, replicas: int) -> int:
        """Returns the number of values that the host gets.

        Args:
            replicas: The number of replicas.
        """
        if self._mode is VariableRetrievalMode.AllReplicas:
            return replicas
        return self.getGroupCount(replicas)

    def shapeOnReplica(
        self, full_shape: Sequence[int], replicas: int, name: str = ""
    ) -> tuple[int, ...]:
        """Returns a replica's shape of host data. Raises ValueError unless each value has a row.

        Args:
            full_shape: The shape of the host data.
            replicas: The number of replicas.
            name: The name of the variable, for the error.
        """
        rows = self.numReplicasReturningVariable(replicas)
        if rows > 1 and tuple(full_shape[:1]) != (rows,):
            raise ValueError(f"{name or 'A variable'} needs {rows} rows but has {full_shape}.")
        return tuple(full_shape[1:] if rows > 1 else full_shape)


class _Record(NamedTuple):
    assignment: tuple[int, ...]
    stride: "int | None"  # None: not constant


class ReplicaGrouping:
    """A partition of the replicas into groups of one size. Made by `Ir.replica_grouping`."""

    def __init__(self) -> None:
        raise RuntimeError("Cannot create a ReplicaGrouping directly: use ir.replica_grouping.")

    _record: _Record

    @property
    def assignment(self) -> list[int]:
        """The group of each replica."""
        return list(self._record.assignment)

    @property
    def num_groups(self) -> int:
        """The number of groups."""
        return max(self._record.assignment) + 1

    @property
    def group_size(self) -> int:
        """The number of replicas in a group."""
        return len(self._record.assignment) // self.num_groups

    @property
    def stride(self) -> int:
        """The distance of neighbours in a group. Raises NotImplementedError if it varies."""
        if self._record.stride is None:
            raise NotImplementedError(f"The grouping {self.assignment} has no constant stride.")
        return self._record.stride

    @property
    def is_const(self) -> bool:
        """Whether the distance of neighbours is constant."""
        return self._record.stride is not None

    @property
    def const_rg(self) -> "ReplicaGrouping":
        """A grouping of constant stride whose groups are parts of these.

        The stride is the smallest distance of neighbours. Groups are cut at larger distances; the
        size is the greatest common divisor of the parts' sizes.
        """
        if self._record.stride is not None:
            return self
        members = replicas_by_group(self)
        gaps = [b - a for m in members for a, b in zip(m, m[1:], strict=False)]
        stride, sizes = min(gaps, default=1), []
        for m in members:
            sizes.append(1)
            for a, b in zip(m, m[1:], strict=False):
                if b - a > stride:
                    sizes.append(1)
                else:
                    sizes[-1] += 1
        return self._inside(stride, math.gcd(*sizes))

    def _inside(self, stride: int, size: int) -> "ReplicaGrouping":
        """Returns this stride and size if its groups are parts of these, else groups of one."""
        assignment = self._record.assignment
        try:
            finer = make_grouping(len(assignment), stride, size)
        except ValueError:
            return make_grouping(len(assignment), 1, 1)
        pairs = set(zip(finer.assignment, assignment, strict=True))
        return finer if len(pairs) == finer.num_groups else make_grouping(len(assignment), 1, 1)

    def _const_groups(self) -> "list[int] | None":
        """Returns the group that contains each group of `const_rg`; None for a constant stride."""
        if self.is_const:
            return None
        own = self._record.assignment
        return [own[m[0]] for m in replicas_by_group(self.const_rg)]

    @property
    def to_device_map(self) -> "list[int] | None":
        """The group that contains each group of `const_rg`; None for a constant stride."""
        return self._const_groups()

    @property
    def to_host_map(self) -> "list[int] | None":
        """The first group of `const_rg` in each group; None for a constant stride."""
        groups = self._const_groups()
        return None if groups is None else [groups.index(g) for g in range(self.num_groups)]

    def transpose(self) -> "ReplicaGrouping":
        """Returns the grouping of the i-th members of all groups."""
        seen: dict[int, int] = {}
        assignment = []
        for group in self._record.assignment:
            assignment.append(seen.get(group, 0))
            seen[group] = assignment[-1] + 1
        numbers = {g: i for i, g in enumerate(dict.fromkeys(assignment))}
        return grouping_from_assignments([numbers[g] for g in assignment])

    def _to_variable_settings(self, retrieval_mode: "str | None" = None) -> VariableSettings:
        mode = retrieval_mode or "one_per_group"
        if mode not in RETRIEVAL_MODES:
            raise ValueError(f"retrieval_mode must be one of {list(RETRIEVAL_MODES)}: {mode!r}.")
        return VariableSettings(self.stride, self.group_size, RETRIEVAL_MODES[mode])

    @property
    def _pb_replica_grouping(self) -> Any:
        """PopART's view of the grouping. Raises NotImplementedError if its stride varies."""
        count = len(self._record.assignment)
        return popart_views.replica_grouping(count, self.stride, self.group_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReplicaGrouping):
            raise TypeError(f"Cannot compare {self!r} with a {type(other).__name__}.")
        return self._record.assignment == tuple(other.assignment)

    def __hash__(self) -> int:
        return hash(self._record.assignment)

    def __repr__(self) -> str:
        if self._record.stride is None:
            return f"ReplicaGrouping(assignment={self.assignment})"
        return (
            f"ReplicaGrouping(num_replicas={len(self._record.assignment)}, "
            f"stride={self._record.stride}, group_size={self.group_size}, "
            f"num_groups={self.num_groups})"
        )


def replicas_by_group(grouping: ReplicaGrouping) -> list[list[int]]:
    """Returns the replicas of each group."""
    out: list[list[int]] = [[] for _ in range(grouping.num_groups)]
    for replica, group in enumerate(grouping.assignment):
        out[group].append(replica)
    return out


def make_grouping(
    replicas: int, stride: int = 1, group_size: "int | None" = None
) -> ReplicaGrouping:
    """Returns groups of stride `stride`. Raises ValueError unless they divide the replicas."""
    if stride < 1 or replicas % stride:
        raise ValueError(f"The stride {stride} must divide the {replicas} replicas.")
    size = replicas // stride if group_size is None else group_size
    if size < 1 or replicas % size:
        raise ValueError(f"The group size {size} must divide the {replicas} replicas.")
    stride = 1 if size == 1 else stride
    if replicas % (size * stride):
        raise ValueError(
            f"Groups of {size} replicas {stride} apart do not divide {replicas} replicas."
        )
    block = stride * size
    assignment = tuple(r // block * stride + r % stride for r in range(replicas))
    return made(ReplicaGrouping, _Record(assignment, stride))


def grouping_from_assignments(assignment: list[int]) -> ReplicaGrouping:
    """Returns the grouping with replica i in group `assignment[i]`.

    Raises:
        ValueError: The groups are not numbered in order, or have unequal sizes.
    """
    groups = list(dict.fromkeys(assignment))
    if groups != list(range(len(groups))):
        raise ValueError(f"Groups must be numbered in order of appearance: {assignment}.")
    members = [[r for r, g in enumerate(assignment) if g == group] for group in groups]
    if len({len(m) for m in members}) != 1:
        raise ValueError(f"Groups must have equal sizes: {assignment}.")
    strides = {b - a for m in members for a, b in zip(m, m[1:], strict=False)} or {1}
    stride = strides.pop() if len(strides) == 1 else None
    if stride is not None and len(members[0]) > 1:
        regular = make_grouping(len(assignment), stride, len(members[0])).assignment
        if regular != list(assignment):
            stride = None
    return made(ReplicaGrouping, _Record(tuple(assignment), stride))
