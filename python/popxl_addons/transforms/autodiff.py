"""Gradient graphs of graphs with named inputs."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import popxl
from popxl.transforms import GradGraphInfo
from popxl_addons.graph import GraphWithNamedArgs


def autodiff(
    graph: "popxl.Graph | GraphWithNamedArgs",
    grads_provided: "Iterable[popxl.Tensor] | None" = None,
    grads_required: "Iterable[popxl.Tensor] | None" = None,
    called_graphs_grad_info: "Mapping[popxl.Graph, GradGraphInfo] | None" = None,
) -> GraphWithNamedArgs:
    """The gradient graph; its `grad_graph_info` says what goes in and out.

    See `popxl.transforms.autodiff`. Call it before calling `graph`.
    """
    named = graph if isinstance(graph, GraphWithNamedArgs) else GraphWithNamedArgs(graph)
    return named.autodiff(grads_provided, grads_required, called_graphs_grad_info)


def remap_grad_info(
    info: GradGraphInfo, mapping: Mapping[popxl.Tensor, popxl.Tensor]
) -> GradGraphInfo:
    """The same gradient graph, its forward tensors replaced as `mapping` says."""

    def moved(connections: Iterable) -> list:
        return [replace(c, fwd_tensor=mapping.get(c.fwd_tensor, c.fwd_tensor)) for c in connections]

    return GradGraphInfo(
        info.graph,
        info.forward_graph,
        moved(info.expected_inputs),
        moved(info.expected_outputs),
    )
