"""Graphs that run their ops several times."""

from typing import TypeVar

import popxl
from popxl import ops
from popxl.graph import outline
from popxl.records import of
from popxl_addons.graph import GraphWithNamedArgs

AnyGraph = TypeVar("AnyGraph", popxl.Graph, GraphWithNamedArgs)


def repeat_graph(graph: AnyGraph, repeat_count: int) -> AnyGraph:
    """Rewrites `graph` so that a call runs what it held `repeat_count` times; returns it.

    As in `ops.repeat`: outputs feed the first inputs of the next round, by-reference inputs carry.
    The graph's outputs are new tensors. ValueError: it is called already, or has more outputs than
    inputs.
    """
    plain = graph.graph if isinstance(graph, GraphWithNamedArgs) else graph
    if any(plain in op.called for other in of(plain.ir).graphs for op in of(other).ops):
        raise ValueError(f"{plain.name} is called already: repeat it before.")
    if len(plain.outputs) > len(plain.inputs):
        raise ValueError(f"{plain.name} has more outputs than inputs and cannot feed itself.")
    inner = outline(plain, f"{plain.name}_repeated")
    with plain:
        of(plain).set_outputs(ops.repeat(inner, repeat_count, *plain.inputs))
    return graph
