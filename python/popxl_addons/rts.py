"""Tensors in shards over replicas: gathered, and reduced into shards.

A shard is flat: replica i of a group holds the i-th part, padded with zeros.
"""

from collections.abc import Mapping
from typing import TypeAlias

import popxl
from popxl.ops.collectives import replicated_all_gather, replicated_reduce_scatter
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.sharded_spec import replica_sharded_spec as replica_sharded_spec

Group: TypeAlias = "popxl.ReplicaGrouping | None"


def gather_replica_sharded_tensor(
    t: popxl.Tensor, use_io_tiles: bool = False, replica_group: Group = None
) -> popxl.Tensor:
    """The whole of a shard, on every replica; a tensor that is none stays as it is."""
    if not t.meta_shape:
        return t
    return replicated_all_gather(t, group=replica_group)


def reduce_replica_sharded_tensor(
    t: popxl.Tensor,
    op: str = "mean",
    shard_group: Group = None,
    replica_group: Group = None,
) -> popxl.Tensor:
    """This replica's shard of `t` reduced over shard_group, then over replica_group if given."""
    shard = replicated_reduce_scatter(t, op, shard_group, True)
    if replica_group is not None:
        reduce = popxl.ops.collectives.replicated_all_reduce_
        shard = reduce(shard, op, replica_group)
    return shard


def _named(tensors: NamedTensors) -> "tuple[tuple[str, ...], list[popxl.TensorSpec]]":
    names, found = tensors.unpack()
    return names, [t.spec if isinstance(t, popxl.Tensor) else t for t in found]


def all_gather_replica_sharded_graph(
    tensors: NamedTensors,
    use_io_tiles: bool = False,
    replica_groups: "Mapping[str, popxl.ReplicaGrouping] | None" = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph that gathers its named inputs, and the names of its outputs, sorted.

    replica_groups: by name; all replicas by default.
    """
    names, specs = _named(tensors)
    args, groups = NamedTensors(), dict(replica_groups or {})

    def gather() -> list[popxl.Tensor]:
        out = []
        for name, spec in zip(names, specs, strict=True):
            t = popxl.graph_input(spec.shape, spec.dtype, name, meta_shape=spec.meta_shape)
            args.insert(name, t)
            out.append(gather_replica_sharded_tensor(t, use_io_tiles, groups.get(name)))
        return out

    return GraphWithNamedArgs(popxl.gir().create_graph(gather), args), list(names)


def reduce_replica_sharded_graph(
    tensors: NamedTensors,
    op: str = "mean",
    shard_groups: "Mapping[str, popxl.ReplicaGrouping] | None" = None,
    replica_group: Group = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph that reduces its named inputs into shards, and the names of its outputs, sorted."""
    names, specs = _named(tensors)
    args, groups = NamedTensors(), dict(shard_groups or {})

    def reduce() -> list[popxl.Tensor]:
        out = []
        for name, spec in zip(names, specs, strict=True):
            t = popxl.graph_input(spec.shape, spec.dtype, name)
            args.insert(name, t)
            out.append(reduce_replica_sharded_tensor(t, op, groups.get(name), replica_group))
        return out

    return GraphWithNamedArgs(popxl.gir().create_graph(reduce), args), list(names)
