"""Gradient graphs that keep a running mean of gradients."""

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import popxl
from popxl import ops
from popxl.records import of
from popxl.transforms import GradGraphInfo
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.transforms.autodiff import autodiff
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory


def autodiff_with_accumulation(
    graph: GraphWithNamedArgs,
    tensors_to_accumulate_grads: Iterable[popxl.Tensor],
    grads_provided: "Iterable[popxl.Tensor] | None" = None,
    grads_required: "Iterable[popxl.Tensor] | None" = None,
    called_graphs_grad_info: "Mapping[popxl.Graph, GradGraphInfo] | None" = None,
    replica_groupings: "Mapping[popxl.Tensor, popxl.ReplicaGrouping] | None" = None,
) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
    """A gradient graph that adds gradients to named state instead of returning them.

    tensors_to_accumulate_grads: inputs of the graph, with or without names. Input "x" gets the
        state `accum.x`, the mean of its gradients since `mean_accum_counter` was 0; each call
        adds 1 to that. Set the counter to 0 to start again.
    grads_required: gradients that the graph returns besides.
    Returns factories of the state (float32) and the graph with it as named inputs. ValueError: a
    tensor gets no gradient.
    """
    wanted = list(tensors_to_accumulate_grads)
    returned = list(grads_required or ())
    required = [*returned, *(t for t in wanted if t not in returned)]
    made = autodiff(graph, grads_provided, required, called_graphs_grad_info)
    info, grad = made.grad_graph_info, made.graph
    by_input = {
        connection.fwd_tensor: grad.outputs[i] for i, connection in enumerate(info.expected_outputs)
    }
    lost = [t for t in wanted if t not in by_input]
    if lost:
        raise ValueError(f"Nothing depends on {lost}: there is no gradient to accumulate.")

    names = {tensor: name for name, tensor in graph.args.to_dict().items()}
    factories, args = NamedVariableFactories(), NamedTensors()

    def add(name: str, shape: tuple, rg: "popxl.ReplicaGrouping | None" = None) -> popxl.Tensor:
        zeros = partial(np.zeros, shape)
        factory = VariableFactory(zeros, popxl.float32, name.split(".")[-1], True, rg)
        factories.insert(name, factory)
        return args.insert(name, factory.create_input())

    with grad, popxl.in_sequence():
        counter = add("mean_accum_counter", ())
        for tensor in wanted:
            name = f"accum.{names.get(tensor, tensor.name)}"
            accumulator = add(name, tensor.shape, (replica_groupings or {}).get(tensor))
            ops.var_updates.accumulate_mean_(accumulator, by_input[tensor], counter)
        ops.add_(counter, popxl.constant(1, popxl.float32))
    of(grad).set_outputs([by_input[t] for t in returned])
    kept = [c for c in info.expected_outputs if c.fwd_tensor in returned]
    kept.sort(key=lambda c: returned.index(c.fwd_tensor))
    changed = GradGraphInfo(grad, info.forward_graph, info.expected_inputs, kept)
    return factories, GraphWithNamedArgs(grad, args, changed)
