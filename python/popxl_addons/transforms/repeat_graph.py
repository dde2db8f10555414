"""Graphs that run their ops several times."""

import popxl
from popxl import ops
from popxl._impl.main_loop import repeat_main
from popxl._impl.records import of
from popxl.graph import outline


def repeat_graph(graph: popxl.Graph, repeat_count: int) -> popxl.Graph:
    """Rewrites `graph` so that it runs what it held `repeat_count` times, in a loop.

    Its ops move to a new graph, "repeat_graph", which is returned; with a count of 1 or less
    `graph` is, as it was. As in `ops.repeat`: outputs feed the first inputs of the next round, and
    by-reference inputs carry. The outputs of `graph` are new tensors. Of the main graph, variables
    and constants stay there; streams make `repeat_count` times their transfers, which
    `ir.num_host_transfers` must say.
    ValueError: it is called already, or has more outputs than inputs.
    """
    if repeat_count <= 1:
        return graph
    if any(graph in op.called for other in of(graph.ir).graphs for op in of(other).ops):
        raise ValueError(f"{graph.name} is called already: repeat it before.")
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
