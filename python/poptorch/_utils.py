"""Helpers that scripts import by this path: tensor structures, and the device of a tensor."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from poptorch._impl.pytree.structures import flatten, unflatten


def flattenTensorStructure(structure: Any) -> list[torch.Tensor]:
    """Returns the tensors of a structure, in order.

    Args:
        structure: Tensors in nested tuples, lists, dicts and registered types.
    """
    tensors: list[torch.Tensor] = []
    flatten(structure, tensors)
    return tensors


def reconstructTensorStructure(structure: Any, values: Iterable[torch.Tensor]) -> Any:
    """Returns a structure with other tensors.

    Args:
        structure: Tensors in nested tuples, lists, dicts and registered types.
        values: The tensors that replace those of `structure`, in order.
    """
    return unflatten(flatten(structure, []), iter(values))


def combine_batch_tensors_gen(batches: Iterable[Sequence[torch.Tensor]]) -> Iterator[torch.Tensor]:
    """Concatenates several batches, tensor by tensor.

    Args:
        batches: Batches with equally many tensors each.

    Yields:
        For tensors of shape [n, ...] and [m, ...], one of shape [n + m, ...]. Tensors without
        dimensions are stacked.
    """
    for tensors in zip(*batches, strict=True):
        yield torch.cat(tensors) if tensors[0].dim() else torch.stack(tensors)


def isOnIpu(value: Any) -> bool:
    """Returns whether a value is a tensor of the traced model."""
    return isinstance(value, torch.Tensor) and value.device.type == "ipu"
