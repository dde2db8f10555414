"""Tensors of outer graphs inside of inner ones."""

from typing import Any

import popxl
from popxl.graph import Graph
from popxl.ops.routing import route_into_called


def is_subgraph(parent: Graph, subgraph: Graph) -> bool:
    """Whether `subgraph` is `parent`, or is called by it, directly or through other graphs."""
    if subgraph is parent:
        return True
    return any(is_subgraph(called, subgraph) for called in parent.called_graphs)


def route_tensor_into_graph(
    tensor: popxl.Tensor, graph: "Graph | None" = None, modified: Any = False
) -> popxl.Tensor:
    """The input of `graph`, the current one by default, that stands for a tensor further out.

    The graph is called already, directly or through others, from the tensor's: the graphs between
    get an input named like the tensor, and all calls, loops and branches pass it on; those that
    come before the tensor's value are put behind it, or it before them. An input that has the
    tensor already is taken. A tensor of `graph` is returned as it is.
    modified: True, or what regions of the tensor the graph writes: it reaches the tensor.
    ValueError: the graph is not called from the tensor's. UnsupportedError: what stands between a
    call and the value has effects; what is to be modified is a constant, a view or made later, or
    goes through a branch; autodiff of a caller has made a copy of the graph.
    """
    return route_into_called(tensor, graph or popxl.gcg(), bool(modified))
