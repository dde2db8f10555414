"""Helpers that scripts import by this path: structures of tensors, and where a tensor is."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from poptorch._impl.pytree.structures import flatten, unflatten


def flattenTensorStructure(structure: Any) -> list[torch.Tensor]:
    """The tensors of nested tuples, lists, dicts and registered types, in order."""
    tensors: list[torch.Tensor] = []
    flatten(structure, tensors)
    return tensors


def reconstructTensorStructure(structure: Any, values: Iterable[torch.Tensor]) -> Any:
    """`structure` with the next of `values` in place of each of its tensors."""
    return unflatten(flatten(structure, []), iter(values))


def combine_batch_tensors_gen(batches: Iterable[Sequence[torch.Tensor]]) -> Iterator[torch.Tensor]:
    """The tensors of several batches, each with its counterparts in the others: of shape [n, ...]
    and [m, ...], one of [n + m, ...]; tensors without dimensions are stacked."""
    for tensors in zip(*batches, strict=True):
        yield torch.cat(tensors) if tensors[0].dim() else torch.stack(tensors)


def isOnIpu(value: Any) -> bool:
    """Whether a value is a tensor of the traced model."""
    return isinstance(value, torch.Tensor) and value.device.type == "ipu"
