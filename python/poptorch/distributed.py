"""Collectives between the replicas of a wrapped model, for use inside of it, with gradients.

A replica is one of all that train together, in whichever process it runs. Outside of a wrapped
model, and with one replica, each group has the one member: results are the tensors themselves.
Every replica has a loss of its own, and a gradient is that of their sum; the optimiser adds up the
gradients of weights that replicas share, or takes their mean, as ever.

tensor: of any dtype that is not complex; reductions take numbers of 8 bits or more, "mean" floats.
group: which replicas meet; by default all of them.

All raise ValueError for what is no tensor, string or ReplicaGroup, and poptorch.Error for another
op, a dtype that is not taken, a group that does not divide the replicas, and a dimension that the
tensor does not have or the group does not divide.
"""

from dataclasses import dataclass

import torch
from poptorch import _native
from poptorch.enums import CommGroupType
from poptorch_core import Error

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "group_rank",
    "group_size",
    "reduce_scatter",
]


@dataclass(frozen=True)
class ReplicaGroup:
    """Groups of `size` replicas, `stride` apart, whose product divides the replicas.

    size: 0: all replicas are one group.
    stride: 0: as far apart as the replicas allow.
    """

    size: int = 0
    stride: int = 1

    @classmethod
    def of(cls, type: CommGroupType, size: int = 0) -> "ReplicaGroup":
        """The same by an enumeration; `size` belongs to Consecutive and Orthogonal.

        Raises ValueError for no CommGroupType, poptorch.Error for a size below one.
        """
        if not isinstance(type, CommGroupType):
            raise ValueError(f"[ReplicaGroup] expected a poptorch.CommGroupType, not {type!r}.")
        if type in (CommGroupType.All, CommGroupType.NoGrouping):
            return cls(1 if type is CommGroupType.NoGrouping else 0)
        if size < 1:
            raise Error(
                f"[ReplicaGroup] there are no groups of {size} replicas. Say how many a group has."
            )
        return cls(size, 0 if type is CommGroupType.Orthogonal else 1)


def all_reduce(
    tensor: torch.Tensor, op: str = "sum", group: ReplicaGroup | None = None
) -> torch.Tensor:
    """The sum, or "mean", "min", "max" or "prod", of the group's tensors, on each replica.

    Of values tied for the least or largest, each has its share of the gradient.
    """
    place = _pair("all_reduce", group)
    return _native.all_reduce(_checked("all_reduce", tensor, op), op, *place)


def all_gather(
    tensor: torch.Tensor, dim: int = 0, group: ReplicaGroup | None = None
) -> torch.Tensor:
    """The group's tensors one behind the other along `dim`, on each replica; of numbers a vector.

    [..., n, ...] gives [..., group_size · n, ...].
    """
    return _native.all_gather(_checked("all_gather", tensor), dim, *_pair("all_gather", group))


def reduce_scatter(
    tensor: torch.Tensor, op: str = "sum", dim: int = 0, group: ReplicaGroup | None = None
) -> torch.Tensor:
    """The i-th part along `dim` of what all_reduce gives, on the group's replica i.

    [..., group_size · n, ...] gives [..., n, ...].
    """
    place = _pair("reduce_scatter", group)
    return _native.reduce_scatter(_checked("reduce_scatter", tensor, op), op, dim, *place)


def all_to_all(
    tensor: torch.Tensor,
    split_dim: int = 0,
    concat_dim: int = 0,
    group: ReplicaGroup | None = None,
) -> torch.Tensor:
    """The i-th part along `split_dim` goes to the group's replica i.

    What a replica receives comes one behind the other along `concat_dim`.
    """
    place = _pair("all_to_all", group)
    return _native.all_to_all(_checked("all_to_all", tensor), split_dim, concat_dim, *place)


def group_size(group: ReplicaGroup | None = None) -> int:
    """How many replicas a group has."""
    return _native.group_size(*_pair("group_size", group))


def group_rank(group: ReplicaGroup | None = None) -> torch.Tensor:
    """Which of its group this replica is: a number, int32, that is known at run time."""
    return _native.group_rank(*_pair("group_rank", group))


def _checked(function: str, tensor: torch.Tensor, op: str = "") -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"[{function}] a tensor is needed but got {type(tensor).__name__}.")
    if not isinstance(op, str):
        raise ValueError(f"[{function}] op must be a string but is {op!r}.")
    return tensor


def _pair(function: str, group: ReplicaGroup | None) -> tuple[int, int]:
    if group is None:
        group = ReplicaGroup()
    if isinstance(group, ReplicaGroup):
        return group.size, group.stride
    raise ValueError(
        f"[{function}] group must be a poptorch.distributed.ReplicaGroup or None but is {group!r}."
    )
