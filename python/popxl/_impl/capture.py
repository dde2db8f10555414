"""Graphs that capture tensors of other graphs at their use."""

from popxl._impl.records import of
from popxl.graph import Graph
from popxl.tensor_base import Tensor, graph_input


def take_in(graph: Graph, sources: "tuple[Graph, ...]") -> None:
    """Makes each used tensor of `sources` an input of `graph`, noted in its record's `captured`."""
    of(graph).sources, of(graph).capture = sources, lambda tensor: _captured(graph, tensor)


def _captured(graph: Graph, tensor: Tensor) -> Tensor:
    """Returns the input that stands for another graph's tensor; variables pass by reference."""
    captured, root = of(graph).captured, of(tensor).root()
    plain = tensor is root or of(tensor).to_view is None
    source = root if plain and of(root).is_memory() else tensor
    if source not in captured:
        kept = of(source)
        by_ref = kept.base is None and kept.is_memory()
        with graph:
            made = graph_input(
                source.shape, source.dtype, source.name, by_ref, source.meta_shape or None
            )
        of(made).ipu, of(made).io_tiles = kept.ipu, kept.io_tiles
        captured[source] = made
    return captured[source]
