"""Gathers and reductions of tensors that are sharded over replicas.

A shard is flat: replica i of a group holds the i-th part.
"""

from typing import TypeAlias

import popxl
from popxl import ops
from popxl.ops.collectives import (
    replica_sharded_slice,
    replicated_all_gather,
    replicated_all_reduce,
    replicated_reduce_scatter,
)
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.named_tensors import NamedTensors

Group: TypeAlias = "popxl.ReplicaGrouping | None"


def replica_sharded_spec(
    t: "popxl.Tensor | popxl.TensorSpec", shard_over: popxl.ReplicaGrouping
) -> popxl.TensorSpec:
    """Returns the spec of a shard of `t` on a replica of a group, with t's shape as meta shape.

    It is the spec of `t` if `t` is a shard, or if a group has one replica or does not divide the
    elements.

    Args:
        t: The tensor.
        shard_over: The number of shards; by default the size of the groups.
    """
    count, elements = shard_over.group_size, 1
    for size in t.shape:
        elements *= size
    if t.meta_shape or count == 1 or elements % count:
        return popxl.TensorSpec(t.shape, t.dtype, t.meta_shape)
    return popxl.TensorSpec((elements // count,), t.dtype, t.shape)


def gather_replica_sharded_tensor(
    t: popxl.Tensor, use_io_tiles: bool = False, replica_group: Group = None
) -> popxl.Tensor:
    """Gathers the whole tensor of a shard, on every replica; other tensors are unchanged.

    Args:
        t: The shard.
        use_io_tiles: Whether the transfer uses the I/O tiles.
        replica_group: The groups of replicas; by default those of the shard.
    """
    if not t.meta_shape:
        return t
    if not use_io_tiles:
        return replicated_all_gather(t, group=replica_group)
    with popxl.io_tiles():
        whole = replicated_all_gather(ops.io_tile_copy(t), group=replica_group)
    return ops.io_tile_copy(whole)


def reduce_replica_sharded_tensor(
    t: popxl.Tensor, op: str = "add", replica_group: Group = None, shard_group: Group = None
) -> popxl.Tensor:
    """Reduces `t` over replica_group and returns this replica's shard of the result.

    Args:
        t: The tensor.
        op: The reduction.
        replica_group: The replicas to reduce over; by default all.
        shard_group: The replicas that share the result; by default replica_group. If it has one
            replica, or does not divide the elements, each replica gets the whole result.
    """
    reduced = replica_group or popxl.gir().replica_grouping()
    shared = shard_group or reduced
    if shared.group_size == 1 or t.nelms % shared.group_size:
        return replicated_all_reduce(t, op, reduced)
    if shared == reduced:
        return replicated_reduce_scatter(t, op, reduced, True)
    return replica_sharded_slice(replicated_all_reduce(t, op, reduced), shared)


def _graph_of(name: str, tensors: NamedTensors) -> tuple[popxl.Graph, NamedTensors, list[str]]:
    """Makes an empty graph with an input for every tensor. Returns it, inputs and sorted names."""
    names, found = tensors.unpack()
    graph, made = popxl.gir().create_empty_graph(name), {}
    with graph:
        for key, like in zip(names, found, strict=True):
            label = like.name if isinstance(like, popxl.Tensor) else key
            meta = like.meta_shape or None
            made[key] = popxl.graph_input(like.shape, like.dtype, label, meta_shape=meta)
    return graph, NamedTensors.from_dict(made), list(names)


def all_gather_replica_sharded_graph(
    tensors: NamedTensors,
    use_io_tiles: bool = False,
    replica_groups: "NamedReplicaGrouping | None" = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that gathers its named inputs. Returns it and its outputs' sorted names.

    Args:
        tensors: The shards, by name.
        use_io_tiles: Whether the transfer uses the I/O tiles.
        replica_groups: Groups by name; by default all replicas.
    """
    groups = replica_groups.to_dict() if replica_groups is not None else {}
    graph, args, names = _graph_of("all_gather", tensors)
    known = args.to_dict()
    with graph:
        for name in names:
            t = gather_replica_sharded_tensor(known[name], use_io_tiles, groups.get(name))
            popxl.graph_output(t)
    return GraphWithNamedArgs(graph, args), names


def reduce_replica_sharded_graph(
    tensors: NamedTensors,
    op: str = "add",
    use_io_tiles: bool = False,
    shard_groups: "NamedReplicaGrouping | None" = None,
    replica_group: Group = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that reduces its named inputs. Returns it and its outputs' sorted names.

    See `reduce_replica_sharded_tensor`.

    Args:
        tensors: The tensors, by name.
        op: The reduction, such as "add".
        use_io_tiles: Whether the transfer uses the I/O tiles.
        shard_groups: Groups by name; by default replica_group.
        replica_group: The groups of replicas; by default all replicas form one.
    """
    groups = shard_groups.to_dict() if shard_groups is not None else {}
    graph, args, names = _graph_of("replica_reduce", tensors)
    known = args.to_dict()
    with graph:
        for name in names:
            t = known[name]
            if not use_io_tiles:
                out = reduce_replica_sharded_tensor(t, op, replica_group, groups.get(name))
            else:
                with popxl.io_tiles():
                    t = ops.io_tile_copy(t)
                    out = reduce_replica_sharded_tensor(t, op, replica_group, groups.get(name))
                out = ops.io_tile_copy(out)
            popxl.graph_output(out)
    return GraphWithNamedArgs(graph, args), names
