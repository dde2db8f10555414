"""Tensors of outer graphs inside of inner ones."""

import popxl
from popxl.context import current
from popxl.graph import Graph
from popxl.records import of
from popxl.tensor_base import graph_input


def is_subgraph(graph: Graph, parent: Graph) -> bool:
    """Whether `parent`, or a graph that it calls, calls `graph`; or whether they are the same."""
    return graph is parent or any(is_subgraph(graph, called) for called in parent.called_graphs)


def route_tensor_into_graph(
    t: popxl.Tensor, graph: "Graph | None" = None, by_ref: bool = False
) -> popxl.Tensor:
    """An input of `graph` that every call fills with `t`, a tensor of a graph further out.

    graph: the current one by default; calls of it that are written later pass `t` on, through
    the graphs between. ValueError: the graph is called already.
    """
    graph = graph or popxl.gcg()
    if t in graph:
        return t
    for known, source in of(graph).routed.items():
        if source is t:
            return known
    if any(graph in op.called for other in of(graph.ir).graphs for op in of(other).ops):
        raise ValueError(f"{graph.name} is called already: route {t!r} into it before.")
    current.graphs.append(graph)
    try:
        made = graph_input(t.shape, t.dtype, t.name, by_ref, t.meta_shape or None)
    finally:
        current.graphs.pop()
    of(graph).routed[made] = t
    return made
