"""Ops between replicas, and between the IPUs of one replica.

Common arguments:
    group: A ReplicaGrouping of constant stride, or a CommGroup; by default all replicas form one
        group.
    op: "add", "mean", "mul", "min", "max", "and", "or" or "square_add".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from poptorch_core import group_numbers
from popxl._impl.records import of
from popxl.context import get_ir
from popxl.dtypes import core_name
from popxl.ops.build import (
    OpBuild,
    check_same_dtype,
    composed,
    emit_in,
    in_place,
    normal_axis,
    with_gradient,
)
from popxl.ops.shape import reshape, transpose
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor

_OPS = {
    "add": "sum",
    **{name: name for name in ("mean", "mul", "min", "max", "and", "or", "square_add")},
}


def _reduction(op: str) -> str:
    if op not in _OPS:
        raise ValueError(f"A collective's op must be one of {list(_OPS)} but is {op!r}.")
    return _OPS[op]


class CommGroupType(IntEnum):
    """The kind of replica groups, in PopART's older interface."""

    All = group_numbers.ALL
    Consecutive = group_numbers.CONSECUTIVE
    Orthogonal = group_numbers.ORTHOGONAL
    Ungrouped = group_numbers.SEPARATE


@dataclass(frozen=True)
class CommGroup:
    """Groups of replicas: all, `replica_group_size` neighbours, or as many at equal distances.

    Attributes:
        type: All, Consecutive or Orthogonal.
        replica_group_size: The number of replicas in a group; 0 for All.
    """

    type: CommGroupType = CommGroupType.All
    replica_group_size: int = 0

    def to_replica_grouping(self, ir: Any) -> ReplicaGrouping:
        """Returns the groups as ReplicaGrouping. Raises ValueError for a size that does not fit.

        Args:
            ir: The program.
        """
        size, replicas = self.replica_group_size, ir.replication_factor
        if self.type is CommGroupType.All:
            return ir.replica_grouping()
        if self.type is CommGroupType.Ungrouped:
            return ir.replica_grouping(group_size=1)
        if size < 1 or replicas % size:
            raise ValueError(f"Groups of {size} do not divide {replicas} replicas.")
        stride = 1 if self.type is CommGroupType.Consecutive else replicas // size
        return ir.replica_grouping(stride, size)


def _group(group: "ReplicaGrouping | CommGroup | None") -> tuple[int, int]:
    ir = get_ir()
    if isinstance(group, CommGroup):
        group = group.to_replica_grouping(ir)
    rg = group or ir.replica_grouping()
    return rg.group_size, rg.stride  # NotImplementedError if the stride varies


def _attrs(group: "ReplicaGrouping | CommGroup | None") -> dict[str, int]:
    size, stride = _group(group)
    return {"group_size": size, "group_stride": stride}


def collective_attrs(op: str, group: "ReplicaGrouping | CommGroup | None") -> dict[str, Any]:
    """Returns the compiler's attributes of a reduction. Raises ValueError for an unknown op.

    Args:
        op: The reduction, such as "add".
        group: The groups of replicas; by default all replicas form one.
    """
    return {"op": _reduction(op), **_attrs(group)}


def replicated_all_reduce(
    t: Tensor, op: str = "add", group: "ReplicaGrouping | None" = None
) -> Tensor:
    """Reduces `t` over the replicas of each group; every replica gets the result.

    Args:
        t: The tensor.
        op: The reduction, such as "add".
        group: The groups of replicas; by default all replicas form one.
    """
    attrs = collective_attrs(op, group)
    return composed(
        "ReplicatedAllReduce", [t], f"{t.name}_all_reduce", lambda b: b("all_reduce", t, **attrs)
    )


def replicated_all_reduce_(
    t: Tensor, op: str = "add", group: "ReplicaGrouping | None" = None
) -> Tensor:
    """`replicated_all_reduce`, in place.

    Args:
        t: The tensor.
        op: The reduction, such as "add".
        group: The groups of replicas; by default all replicas form one.
    """
    attrs = collective_attrs(op, group)
    name = f"{t.name}_all_reduce"
    return in_place("ReplicatedAllReduceInplace", [t], name, lambda b: b("all_reduce", t, **attrs))


_SHAPES = ("auto", "new_axis", "concat", "meta_shape")


def replicated_all_gather(
    t: Tensor,
    axis: int = 0,
    group: "ReplicaGrouping | None" = None,
    output_shape: str = "auto",
) -> Tensor:
    """Gathers `t` from all replicas of the group, on each of them.

    Args:
        t: The tensor.
        axis: The axis of "concat".
        group: The group.
        output_shape: "new_axis" adds a first dimension for the replicas. "concat" concatenates
            them along `axis`. "meta_shape" joins shards to the whole. "auto" is "meta_shape" if
            `t` has a meta shape, else "concat".

    Raises:
        ValueError: output_shape is another one, or "meta_shape" without a meta shape.
    """
    if output_shape not in _SHAPES:
        raise ValueError(f"output_shape must be one of {_SHAPES} but is {output_shape!r}.")
    if output_shape == "auto":
        output_shape = "meta_shape" if t.meta_shape else "concat"
    if output_shape == "meta_shape" and not t.meta_shape:
        raise ValueError(f"{t!r} has no meta shape.")

    size, _ = _group(group)
    axis = normal_axis(axis, t.rank)

    def body(b: OpBuild) -> Any:
        whole = b("all_gather", t, **_attrs(group))
        if output_shape == "meta_shape":
            return _trimmed(b, whole, t.meta_shape)
        return b("reshape", whole, shape=[size * t.nelms])

    out = composed("ReplicatedAllGather", [t], f"{t.name}_all_gathered", body)
    if output_shape == "meta_shape":
        return out
    rows = reshape(out, (size, *t.shape))
    if output_shape == "new_axis" or t.rank == 0:
        return rows
    if axis:
        rows = transpose(rows, (*range(1, axis + 1), 0, *range(axis + 1, t.rank + 1)))
    return reshape(rows, (*t.shape[:axis], size * t.shape[axis], *t.shape[axis + 1 :]))


def _trimmed(b: OpBuild, whole: Any, shape: Sequence[int]) -> Any:
    """Returns joined shards without their padding, in the given shape."""
    have, need = int(np.prod(whole.type[1])), int(np.prod(shape))
    flat = b("reshape", whole, shape=[have])
    if have != need:
        flat = b("slice", flat, starts=[0], stops=[need], steps=[1])
    return b("reshape", flat, shape=list(shape))


def _shards(b: OpBuild, value: Any, count: int) -> Any:
    """Returns a value as [count, ceil(elements / count)], padded with zeros."""
    have = int(np.prod(value.type[1], dtype=np.int64))
    each = -(-have // count)
    flat = b("reshape", value, shape=[have])
    if each * count != have:
        flat = b("pad", flat, low=[0], high=[each * count - have])
    return b("reshape", flat, shape=[count, each])


def replicated_reduce_scatter(
    t: Tensor,
    op: str = "add",
    group: "ReplicaGrouping | None" = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Reduces `t` over the group; replica i gets the i-th flat shard, padded with zeros.

    Args:
        t: The tensor.
        op: The reduction.
        group: The group.
        configure_output_for_replicated_tensor_sharding: Whether the shard gets `t`'s shape as meta
            shape.
    """
    size, stride = _group(group)
    reduction = _reduction(op)
    b = OpBuild("ReplicatedReduceScatter", t)
    shards = _shards(b, of(t).read(), size)
    attrs = {"op": reduction, "group_size": size, "group_stride": stride}
    meta = t.shape if configure_output_for_replicated_tensor_sharding else ()
    out = b.output(b("reduce_scatter", shards, **attrs), f"{t.name}_reduce_scattered", meta)
    b.done()
    return out


def replica_sharded_slice(t: Tensor, group: "ReplicaGrouping | None" = None) -> Tensor:
    """Returns this replica's flat shard of its `t`, zero-padded; its meta shape is `t`'s shape.

    Args:
        t: The tensor.
        group: The groups of replicas; by default all replicas form one.
    """
    size, _ = _group(group)
    b = OpBuild("ReplicatedReduceScatter", t)
    shards = _shards(b, of(t).read(), size)
    row = b("reduce_scatter", shards, op="local", **_attrs(group))
    out = b.output(row, f"{t.name}_sliced", t.meta_shape or t.shape)
    b.done()
    return out


def replicated_slice(t: Tensor, axis: int = 0, group: "ReplicaGrouping | None" = None) -> Tensor:
    """Returns this replica's part of its local `t` along the axis.

    The gradient is the all-gather of the replicas' gradients.

    Args:
        t: The tensor.
        axis: The axis to cut.
        group: The groups of replicas; by default all replicas form one.

    Raises:
        ValueError: The group's size does not divide the axis.
    """
    size, _ = _group(group)
    axis = normal_axis(axis, t.rank)
    if t.shape[axis] % size:
        raise ValueError(f"Axis {axis} of {t!r} cannot be divided by {size} replicas.")
    part, rank = t.shape[axis] // size, t.rank

    def body(b: OpBuild) -> Any:
        cut = b("reshape", t, shape=[*t.shape[:axis], size, part, *t.shape[axis + 1 :]])
        order = [axis, *range(axis), *range(axis + 1, rank + 1)]
        parts = b("transpose", cut, permutation=order)
        return b("reduce_scatter", parts, op="local", **_attrs(group))

    return composed("ReplicatedSlice", [t], f"{t.name}_replicated_slice", body)


# The core ops that reduce two values between the IPUs of one replica.
_BETWEEN = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}
_BETWEEN |= {"and": "logical_and", "or": "logical_or"}


def _places(ts: Sequence[Tensor], ipus: "Sequence[int] | None", op: str) -> list[int]:
    where = list(ipus) if ipus is not None else [t.ipu for t in ts]
    if op not in (*_BETWEEN, "mean", "square_add"):
        raise ValueError(f"Between IPUs op must be one of {list(_OPS)} but is {op!r}.")
    if len(where) != len(ts) or len({t.shape for t in ts}) != 1:
        raise ValueError("all_reduce takes an IPU for every tensor, and equal shapes.")
    check_same_dtype("AllReduce", *ts)
    return where


def _reduced(graph: Any, values: list[Any], where: list[int], op: str, dtype: Any) -> list[Any]:
    """Returns the reduced value, on each of the IPUs."""
    if op == "square_add":
        values = [emit_in(graph, "mul", v, v, ipu=i) for v, i in zip(values, where, strict=True)]
    out = []
    for ipu in where:
        total = None
        for value, home in zip(values, where, strict=True):
            if home != ipu:
                value = emit_in(graph, "ipu_copy", value, to=ipu, ipu=home)
            if total is None:
                total = value
            else:
                total = emit_in(graph, _BETWEEN.get(op, "add"), total, value, ipu=ipu)
        if op == "mean":
            share = graph.scalar(core_name(dtype), 1.0 / len(where))
            total = emit_in(graph, "mul", total, share, ipu=ipu)
        out.append(total)
    return out


def _copied(graph: Any, values: list[Any], where: list[int]) -> list[Any]:
    return [emit_in(graph, "identity", v, ipu=i) for v, i in zip(values, where, strict=True)]


def _between(
    ts: Sequence[Tensor], ipus: "Sequence[int] | None", op: str, kind: str
) -> list[Tensor]:
    ts = list(ts)
    where, dtype = _places(ts, ipus, op), ts[0].dtype

    def reduce(graph: Any, values: list[Any]) -> list[Any]:
        return _reduced(graph, values, where, op, dtype)

    def copy(graph: Any, values: list[Any]) -> list[Any]:
        return _copied(graph, values, where)

    b = OpBuild("AllReduce", *ts, together=False)
    if kind == "plain":
        values = _reduced(of(b.graph).core, [of(t).read() for t in ts], where, op, dtype)
    elif kind == "identical_inputs":
        values = with_gradient(b, ts, copy, reduce)
    else:
        values = with_gradient(b, ts, reduce, copy)
    out = []
    for value, t, ipu in zip(values, ts, where, strict=True):
        made = b.output(value, f"{t.name}_all_reduce")
        of(made).ipu = ipu
        out.append(made)
    b.done()
    return out


def all_reduce(
    ts: Sequence[Tensor], ipus: "Sequence[int] | None" = None, op: str = "add"
) -> list[Tensor]:
    """Reduces tensors on different IPUs of one replica; each of these IPUs gets the result.

    Args:
        ts: The tensors.
        ipus: Their IPUs, if the tensors do not define them.
        op: The reduction.

    Raises:
        ValueError: The op is unknown; lengths, shapes or dtypes differ.
    """
    return _between(ts, ipus, op, "plain")


def all_reduce_identical_inputs(
    ts: Sequence[Tensor], ipus: "Sequence[int] | None" = None, op: str = "add"
) -> list[Tensor]:
    """Copies tensors that are equal on all IPUs; `op` reduces their gradients.

    Arguments and errors are those of `all_reduce`.

    Args:
        ts: The tensors, all of one dtype.
        ipus: The IPU of each tensor.
        op: The reduction of the gradients.
    """
    return _between(ts, ipus, op, "identical_inputs")


def all_reduce_identical_grad_inputs(
    ts: Sequence[Tensor], ipus: "Sequence[int] | None" = None, op: str = "add"
) -> list[Tensor]:
    """`all_reduce` whose results have equal gradients on all IPUs: it passes them on unchanged.

    Arguments and errors are those of `all_reduce`.

    Args:
        ts: The tensors, all of one dtype.
        ipus: The IPU of each tensor.
        op: The reduction of the tensors.
    """
    return _between(ts, ipus, op, "identical_grad_inputs")
