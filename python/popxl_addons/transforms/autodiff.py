"""Gradient graphs of graphs with named inputs, optionally with a running mean of gradients."""

from collections.abc import Iterable
from functools import partial

import numpy as np
import popxl
from popxl import ops
from popxl._impl.connections import connect
from popxl._impl.records import of
from popxl.transforms import ExpectedConnection, GradGraphInfo
from popxl.transforms.autodiff import grad_graph_info
from popxl_addons.dot_tree import sanitise
from popxl_addons.graph import GraphWithNamedArgs, differentiate
from popxl_addons.graph_common import CalledGraphsGradInfoLike
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory

_COUNTER = "mean_accum_counter"


def autodiff(
    graph: "popxl.Graph | GraphWithNamedArgs",
    grads_provided: "Iterable[popxl.Tensor] | None" = None,
    grads_required: "Iterable[popxl.Tensor] | None" = None,
    called_graphs_grad_info: "CalledGraphsGradInfoLike | None" = None,
) -> GraphWithNamedArgs:
    """Makes the gradient graph; its `grad_graph_info` describes inputs and outputs.

    See `popxl.transforms.autodiff`. Call it before calling `graph`. called_graphs_grad_info adds to
    the gradient graphs that `graph` knows of called graphs.

    Args:
        graph: The forward graph.
        grads_provided: The outputs whose gradients the caller passes.
        grads_required: The inputs whose gradients are wanted.
        called_graphs_grad_info: Gradient graphs of called graphs, by graph.
    """
    return differentiate(graph, grads_provided, grads_required, called_graphs_grad_info)


def autodiff_with_accumulation(
    graph: GraphWithNamedArgs,
    tensors_to_accumulate_grads: Iterable[popxl.Tensor],
    grads_provided: "Iterable[popxl.Tensor] | None" = None,
    grads_required: "Iterable[popxl.Tensor] | None" = None,
    called_graphs_grad_info: "CalledGraphsGradInfoLike | None" = None,
    replica_groupings: "NamedReplicaGrouping | None" = None,
) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
    """Makes a gradient graph that accumulates gradients in named state.

    Args:
        graph: The forward graph.
        tensors_to_accumulate_grads: Inputs of the graph, with or without names. Input "x" gets the
            state `accum.x`, of its dtype: the mean of its gradients since `mean_accum_counter` was
            0. Each call adds 1 to the counter. Set it to 0 to start again.
        grads_provided: See `popxl.transforms.autodiff`.
        grads_required: Other gradients, which the graph returns.
        called_graphs_grad_info: See `autodiff`.
        replica_groupings: The groupings of the state, by name; by default all replicas.

    Returns:
        Factories of the state, and the graph with the state as named inputs.

    Raises:
        ValueError: A tensor does not get a gradient.
    """
    wanted = list(tensors_to_accumulate_grads)
    returned = [t for t in grads_required or () if t not in wanted]
    made = autodiff(graph, grads_provided, [*returned, *wanted], called_graphs_grad_info)
    info, grad = made.grad_graph_info, made.graph
    by_input = {
        connection.fwd_tensor: grad.outputs[i] for i, connection in enumerate(info.expected_outputs)
    }
    lost = [t for t in wanted if t not in by_input]
    if lost:
        raise ValueError(f"No output depends on {lost}: there is no gradient to accumulate.")

    names = {tensor: name for name, tensor in graph.args.to_dict().items()}
    groups = replica_groupings.to_dict() if replica_groupings is not None else {}
    factories: dict[str, VariableFactory] = {}
    args: dict[str, popxl.Tensor] = {}

    def add(
        name: str,
        like: "popxl.Tensor | popxl.TensorSpec",
        rg: "popxl.ReplicaGrouping | None" = None,
    ) -> popxl.Tensor:
        zeros, label = partial(np.zeros, like.meta_shape or like.shape), name.split(".")[-1]
        shards = (
            -(-int(np.prod(like.meta_shape)) // int(np.prod(like.shape))) if like.meta_shape else 1
        )
        factories[name] = VariableFactory(zeros, like.dtype, label, True, rg, shards)
        args[name] = factories[name].create_input()
        return args[name]

    with grad, popxl.in_sequence():
        counter = add(_COUNTER, popxl.TensorSpec((), popxl.float32))
        for tensor in wanted:
            name = names.get(tensor) or sanitise(tensor.name)
            accumulator = add(f"accum.{name}", tensor, groups.get(name))
            ops.var_updates.accumulate_mean_(accumulator, by_input[tensor], counter)
        ops.var_updates.accumulate_(counter, popxl.constant(1, popxl.float32))
    of(grad).set_outputs([by_input[t] for t in returned])
    kept = [c for c in info.expected_outputs if c.fwd_tensor in returned]
    kept.sort(key=lambda c: returned.index(c.fwd_tensor))
    changed = grad_graph_info(grad, info.forward_graph, info.expected_inputs, kept)
    named = NamedTensors.from_dict(args)
    return NamedVariableFactories.from_dict(factories), GraphWithNamedArgs(grad, named, changed)


def remap_grad_info(
    grad_info: GradGraphInfo, forward_graph: popxl.Graph, backward_graph: popxl.Graph
) -> GradGraphInfo:
    """Returns the same connections, input by input and output by output, for other graphs.

    Args:
        grad_info: The mapping of a gradient graph.
        forward_graph: A copy of the forward graph, with as many inputs and outputs.
        backward_graph: A copy of the gradient graph.
    """
    old = grad_info.forward_graph
    ours = dict(zip(old.inputs, forward_graph.inputs, strict=True))
    ours |= dict(zip(old.outputs, forward_graph.outputs, strict=True))

    def moved(connections: "Iterable[ExpectedConnection]") -> list[ExpectedConnection]:
        return [connect(ours[c.fwd_tensor], c.connection_type) for c in connections]

    return grad_graph_info(
        backward_graph,
        forward_graph,
        moved(grad_info.expected_inputs),
        moved(grad_info.expected_outputs),
    )
