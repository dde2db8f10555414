"""Tensors of outer graphs in inner graphs."""

from typing import Any

import popxl
from popxl.graph import Graph
from popxl.ops.routing import route_into_called


def is_subgraph(parent: Graph, subgraph: Graph) -> bool:
    """Returns whether `subgraph` is `parent`, or is called by it, directly or indirectly.

    Args:
        parent: The graph that may call it.
        subgraph: The graph that may be called.
    """
    if subgraph is parent:
        return True
    return any(is_subgraph(called, subgraph) for called in parent.called_graphs)


def route_tensor_into_graph(
    tensor: popxl.Tensor, graph: "Graph | None" = None, modified: Any = False
) -> popxl.Tensor:
    """Returns the input of a graph that stands for a tensor of an outer graph.

    The tensor's graph already calls the graph, directly or indirectly. Graphs in between get an
    input with the tensor's name, and all calls, loops and branches pass it on. Calls and the
    tensor's ops are reordered so that the value comes first. An existing input for the tensor is
    reused. A tensor of `graph` is returned unchanged.

    Args:
        tensor: The tensor.
        graph: The graph; by default the current one.
        modified: True, or the regions of the tensor that the graph writes; the writes then change
            the tensor.

    Raises:
        ValueError: The tensor's graph does not call the graph.
        UnsupportedError: Ops between a call and the value have effects; a modified tensor is a
            constant, a view, made later, or passes a branch; autodiff of a caller has copied the
            graph.
    """
    return route_into_called(tensor, graph or popxl.gcg(), bool(modified))
