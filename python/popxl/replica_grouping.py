"""Groups of replicas: which of them share a value or take part in one collective."""

from dataclasses import dataclass
from typing import NamedTuple

from popxl.records.link import made


@dataclass(frozen=True)
class VariableSettings:
    """How a variable's data on the host and on replicas belong together."""

    num_replicas: int
    stride: int
    group_size: int
    retrieval_mode: str

    def groups(self, replicas: int) -> int:
        """How many groups `replicas` replicas make."""
        return replicas // self.group_size


class _Record(NamedTuple):
    assignment: tuple[int, ...]
    stride: "int | None"  # None: not constant


class ReplicaGrouping:
    """A partition of the replicas into groups of one size. Made by `Ir.replica_grouping`."""

    def __init__(self) -> None:
        raise TypeError("Cannot create a ReplicaGrouping directly: use ir.replica_grouping.")

    _record: _Record

    @property
    def assignment(self) -> list[int]:
        """The group of each replica."""
        return list(self._record.assignment)

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return max(self._record.assignment) + 1

    @property
    def group_size(self) -> int:
        """How many replicas a group has."""
        return len(self._record.assignment) // self.num_groups

    @property
    def stride(self) -> int:
        """The distance of neighbours in a group. NotImplementedError when it varies."""
        if self._record.stride is None:
            raise NotImplementedError(f"The grouping {self.assignment} has no constant stride.")
        return self._record.stride

    @property
    def is_const(self) -> bool:
        """Whether the distance of neighbours is the same everywhere."""
        return self._record.stride is not None

    @property
    def const_rg(self) -> "ReplicaGrouping":
        """The coarsest grouping of constant stride whose groups lie inside these."""
        if self._record.stride is not None:
            return self
        replicas = len(self._record.assignment)
        for size in range(self.group_size - 1, 1, -1):
            for stride in range(1, replicas):
                if replicas % (size * stride) == 0:
                    finer = make_grouping(replicas, stride, size)
                    pairs = set(zip(finer.assignment, self._record.assignment, strict=True))
                    if len(pairs) == finer.num_groups:
                        return finer
        return make_grouping(replicas, 1, 1)

    @property
    def to_device_map(self) -> dict[int, list[int]]:
        """The replicas of each group."""
        out: dict[int, list[int]] = {}
        for replica, group in enumerate(self._record.assignment):
            out.setdefault(group, []).append(replica)
        return out

    @property
    def to_host_map(self) -> list[int]:
        """The first replica of each group."""
        return [members[0] for members in self.to_device_map.values()]

    def transpose(self) -> "ReplicaGrouping":
        """The grouping of the i-th members of all groups."""
        seen: dict[int, int] = {}
        assignment = []
        for group in self._record.assignment:
            assignment.append(seen.get(group, 0))
            seen[group] = assignment[-1] + 1
        numbers = {g: i for i, g in enumerate(dict.fromkeys(assignment))}
        return grouping_from_assignments([numbers[g] for g in assignment])

    def _to_variable_settings(self, retrieval_mode: str = "one_per_group") -> VariableSettings:
        rg = self.const_rg
        return VariableSettings(
            len(self._record.assignment), rg.stride, rg.group_size, retrieval_mode
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGrouping) and self._record.assignment == tuple(
            other.assignment
        )

    def __hash__(self) -> int:
        return hash(self._record.assignment)

    def __repr__(self) -> str:
        stride = self._record.stride if self._record.stride is not None else "varying"
        return (
            f"ReplicaGrouping(num_replicas={len(self._record.assignment)}, stride={stride}, "
            f"group_size={self.group_size}, num_groups={self.num_groups})"
        )


def make_grouping(
    replicas: int, stride: int = 1, group_size: "int | None" = None
) -> ReplicaGrouping:
    """Groups `stride` apart. ValueError when they do not divide the replicas."""
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
    """Replica i in group `assignment[i]`. ValueError: numbers out of order, unequal groups."""
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
