"""Joins the batches of a user's batch sampler into groups of one step."""

from collections.abc import Iterator, Sized
from typing import Any, cast

import torch
from poptorch._impl.pytree.structures import flatten, order_in, unflatten

ONE_STRUCTURE = "All items of a data set must have the structure of the first one."


class Groups:
    """Iterates over groups of `size` batches, each joined along the first dimension.

    Batches may differ in their number of rows. `keeps_rest`: the last group may be smaller.
    """

    def __init__(self, batches: Iterator[Any], size: int, keeps_rest: bool) -> None:
        self._batches, self._size, self._keeps_rest = batches, size, keeps_rest

    def __iter__(self) -> "Groups":
        return self

    def __len__(self) -> int:
        return groups_in(len(cast(Sized, self._batches)), self._size, self._keeps_rest)

    def __next__(self) -> Any:
        group = []
        for batch in self._batches:
            group.append(batch)
            if len(group) == self._size:
                break
        if not group or (len(group) < self._size and not self._keeps_rest):
            raise StopIteration
        return joined(group)


def groups_in(batches: int, size: int, keeps_rest: bool) -> int:
    """Returns the number of groups of `size`."""
    whole, rest = divmod(batches, size)
    return whole + (1 if rest and keeps_rest else 0)


def joined(batches: list[Any]) -> Any:
    """Concatenates the tensors of batches; other objects are those of the first batch."""
    if len(batches) == 1:
        return batches[0]
    leaves: list[list[torch.Tensor]] = [[] for _ in batches]
    nodes = [
        flatten(batch, tensors, "batch") for batch, tensors in zip(batches, leaves, strict=True)
    ]
    parts_of = [
        [tensors[i] for i in order_in(nodes[0], node, ONE_STRUCTURE, constants=False)]
        for node, tensors in zip(nodes, leaves, strict=True)
    ]
    rows = [
        torch.cat([torch.atleast_1d(part) for part in parts])
        for parts in zip(*parts_of, strict=True)
    ]
    return unflatten(nodes[0], iter(rows))
