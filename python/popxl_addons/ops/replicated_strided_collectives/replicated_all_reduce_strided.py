"""All-reduces over groups of replicas with a stride, for layers that are spread over replicas."""

import popxl
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.replicated_all_reduce_TP.replicated_all_reduce_TP import Group, reduced

_NAME = "replicated_all_reduce_strided_out"


def replicated_all_reduce_strided_identical_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """See `replicated_all_reduce_TP.replicated_all_reduce_identical_inputs`."""
    return reduced(t, op, group, "backward", _NAME)


def replicated_all_reduce_strided_identical_grad_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """See `replicated_all_reduce_TP.replicated_all_reduce_identical_grad_inputs`."""
    return reduced(t, op, group, "forward", _NAME)


def replicated_all_reduce_strided(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """Reduces `t` and its gradients over the group."""
    return reduced(t, op, group, "both", _NAME)


def replicated_all_reduce_strided_graph(
    tensors: NamedTensors,
    op: str = "add",
    group: Group = None,
    use_io_tiles: bool = False,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that reduces its named inputs. Returns it and its outputs' sorted names."""
    names, found = tensors.unpack()
    made = {}
    graph = popxl.gir().create_empty_graph("replica_reduce")
    with graph, popxl.in_sequence(False):
        for name, like in zip(names, found, strict=True):
            meta = like.meta_shape or None
            t = popxl.graph_input(like.shape, like.dtype, name, meta_shape=meta)
            made[name] = t
            popxl.graph_output(_reduced(t, op, group, use_io_tiles))
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(made)), list(names)


def _reduced(t: popxl.Tensor, op: str, group: Group, use_io_tiles: bool) -> popxl.Tensor:
    if not use_io_tiles:
        return replicated_all_reduce_strided(t, op, group)
    with popxl.io_tiles():
        return replicated_all_reduce_strided(t, op, group)
