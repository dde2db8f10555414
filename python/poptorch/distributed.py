"""Collectives between the replicas of a wrapped model, for use inside of it, with gradients.

The replicas are all that train together, in all processes. Outside of a wrapped model, and with one
replica, each group has one member: results are the tensors themselves. Each replica has its own
loss, and gradients are those of the sum of all losses. As without collectives, the optimiser adds
the gradients of weights that replicas share, or takes their mean.

Tensors have any dtype that is not complex. Reductions take numbers of 8 bits or more, and "mean"
takes floats. The group names the replicas that communicate; None: all of them.

All functions raise ValueError for an argument that is not a tensor, string or ReplicaGroup. They
raise poptorch.Error for an unknown op, an unsupported dtype, or a group that does not divide the
replicas. They also raise it for a dimension that the tensor does not have or the group does not
divide.
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
    """Groups of `size` replicas that are `stride` apart; the product divides the replicas.

    Attributes:
        size: The replicas of a group. 0: all replicas are one group.
        stride: The distance between a group's replicas. 0: as far apart as the replicas allow.
    """

    size: int = 0
    stride: int = 1

    @classmethod
    def of(cls, type: CommGroupType, size: int = 0) -> "ReplicaGroup":
        """Returns the groups that an enumeration names.

        Args:
            type: The kind of group.
            size: The replicas of a group, for Consecutive and Orthogonal.

        Raises:
            ValueError: `type` is not a CommGroupType.
            poptorch.Error: `size` is below 1.
        """
        if not isinstance(type, CommGroupType):
            raise ValueError(f"[ReplicaGroup] expected a poptorch.CommGroupType, not {type!r}.")
        if type in (CommGroupType.All, CommGroupType.NoGrouping):
            return cls(1 if type is CommGroupType.NoGrouping else 0)
        if size < 1:
            raise Error(
                f"[ReplicaGroup] a group cannot have {size} replicas. Set size to 1 or more."
            )
        return cls(size, 0 if type is CommGroupType.Orthogonal else 1)


def all_reduce(
    tensor: torch.Tensor, op: str = "sum", group: ReplicaGroup | None = None
) -> torch.Tensor:
    """Reduces the tensors of a group, element by element.

    Args:
        tensor: The tensor of this replica.
        op: "sum", "mean", "min", "max" or "prod".
        group: The replicas that communicate. None: all of them.

    Returns:
        The reduced tensor, on each replica. With "min" and "max", tied values share the gradient.
    """
    place = _pair("all_reduce", group)
    return _native.all_reduce(_checked("all_reduce", tensor, op), op, *place)


def all_gather(
    tensor: torch.Tensor, dim: int = 0, group: ReplicaGroup | None = None
) -> torch.Tensor:
    """Concatenates the tensors of a group along `dim`.

    Args:
        tensor: The tensor of this replica, [..., n, ...].
        dim: The dimension along which the tensors are concatenated.
        group: The replicas that communicate. None: all of them.

    Returns:
        A tensor [..., group_size · n, ...], on each replica. Tensors without dimensions give a
        vector.
    """
    return _native.all_gather(_checked("all_gather", tensor), dim, *_pair("all_gather", group))


def reduce_scatter(
    tensor: torch.Tensor, op: str = "sum", dim: int = 0, group: ReplicaGroup | None = None
) -> torch.Tensor:
    """Reduces the tensors of a group, and gives each replica its part of the result.

    Args:
        tensor: The tensor of this replica, [..., group_size · n, ...].
        op: "sum", "mean", "min", "max" or "prod".
        dim: The dimension that is divided.
        group: The replicas that communicate. None: all of them.

    Returns:
        On the group's replica i, part i of the reduced tensor along `dim`, [..., n, ...].
    """
    place = _pair("reduce_scatter", group)
    return _native.reduce_scatter(_checked("reduce_scatter", tensor, op), op, dim, *place)


def all_to_all(
    tensor: torch.Tensor,
    split_dim: int = 0,
    concat_dim: int = 0,
    group: ReplicaGroup | None = None,
) -> torch.Tensor:
    """Sends part i of the tensor to the group's replica i.

    Args:
        tensor: The tensor of this replica.
        split_dim: The dimension along which the tensor is divided into parts.
        concat_dim: The dimension along which the received parts are concatenated.
        group: The replicas that communicate. None: all of them.

    Returns:
        The received parts, concatenated.
    """
    place = _pair("all_to_all", group)
    return _native.all_to_all(_checked("all_to_all", tensor), split_dim, concat_dim, *place)


def group_size(group: ReplicaGroup | None = None) -> int:
    """Returns the number of replicas in a group.

    Args:
        group: The group. None: all replicas.
    """
    return _native.group_size(*_pair("group_size", group))


def group_rank(group: ReplicaGroup | None = None) -> torch.Tensor:
    """Returns the number of this replica within its group.

    Args:
        group: The group. None: all replicas.

    Returns:
        An int32 tensor, whose value is known at run time.
    """
    return _native.group_rank(*_pair("group_rank", group))


def _checked(function: str, tensor: torch.Tensor, op: str = "") -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"[{function}] expected a tensor but got {type(tensor).__name__}.")
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
