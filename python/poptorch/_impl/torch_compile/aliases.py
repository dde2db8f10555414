"""Memory that values of a graph share, and inputs that a graph changes."""

from typing import Any

import torch
from torch import fx


def example_of(node: fx.Node) -> Any:
    """Returns a value without memory that torch has recorded for a node; None if there is none."""
    return node.meta.get("val", node.meta.get("example_value"))


def inputs_of(graph: fx.GraphModule) -> list[fx.Node]:
    """Returns the nodes of the inputs."""
    return graph.graph.find_nodes(op="placeholder")


def results_of(graph: fx.GraphModule) -> list[Any]:
    """Returns the results of a graph: nodes, numbers or None."""
    (output,) = graph.graph.find_nodes(op="output")
    return list(output.args[0])


def has_aliases(graph: fx.GraphModule) -> bool:
    """Returns whether a result shares memory with an input or with another result.

    The device returns every result in separate memory.
    """
    results = [_storage(example_of(r)) for r in results_of(graph) if isinstance(r, fx.Node)]
    shared = [storage for storage in results if storage is not None]
    inputs = {_storage(example_of(node)) for node in inputs_of(graph)}
    attributes = {_storage(graph.get_parameter(n)) for n, _ in graph.named_parameters()}
    return len({*shared}) < len(shared) or not inputs.union(attributes).isdisjoint(shared)


def changed_inputs(graph: fx.GraphModule) -> list[bool]:
    """Returns for each input whether torch has recorded a write to it."""
    return [_is_changed(example_of(node)) for node in inputs_of(graph)]


def _is_changed(example: Any) -> bool:
    if not isinstance(example, torch.Tensor) or example.is_inference():
        return isinstance(example, torch.Tensor)
    return example._version > 0


def _storage(example: Any) -> int | None:
    if not isinstance(example, torch.Tensor) or example.layout != torch.strided:
        return None
    return example.untyped_storage()._cdata
