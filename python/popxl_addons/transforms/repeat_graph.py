"""Graphs that run their ops several times."""

import popxl
from popxl import ops
from popxl._impl.main_loop import repeat_main
from popxl._impl.records import of
from popxl.graph import outline


def repeat_graph(graph: popxl.Graph, repeat_count: int) -> popxl.Graph:
    """Rewrites `graph` so that a loop runs its ops `repeat_count` times.

    The ops move to a new graph, "repeat_graph". As in `ops.repeat`, outputs feed the first inputs
    of the next round, and by-reference inputs keep writes. The outputs of `graph` are new tensors.
    Variables and constants of the main graph stay there. Its streams make `repeat_count` times the
    transfers: set `ir.num_host_transfers`.

    Returns:
        The new graph; with a count of 1 or less, the unchanged `graph`.

    Raises:
        ValueError: The graph is already called, or has more outputs than inputs.
    """
    if repeat_count <= 1:
        return graph
    if any(graph in op.called for other in of(graph.ir).graphs for op in of(other).ops):
        raise ValueError(f"{graph.name} is called already: repeat it before calling it.")
    if len(graph.outputs) > len(graph.inputs):
        raise ValueError(f"{graph.name} has more outputs than inputs and cannot feed itself.")
    number = sum(other.name.startswith("repeat_graph") for other in of(graph.ir).graphs)
    name = f"repeat_graph_subgraph({number})"
    if graph is graph.main_graph:
        return repeat_main(graph, name, repeat_count)
    inner = outline(graph, name)
    with graph:
        of(graph).set_outputs(ops.repeat(inner, repeat_count, *graph.inputs))
    return inner
