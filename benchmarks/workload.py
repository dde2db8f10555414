"""Defines what a workload is, and the data that workloads draw."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

SGD = ("SGD", {"lr": 0.05})


def images(*shape: int, classes: int) -> Callable:
    """Normal images with class targets."""
    return lambda batch: (torch.randn(batch, *shape), torch.randint(classes, (batch,)))


def tokens(length: int, vocabulary: int, classes: int = 0) -> Callable:
    """Token ids with one class target per sequence, or without `classes` one target per token."""

    def draw(batch):
        ids = torch.randint(vocabulary, (batch, length))
        if classes:
            return ids, torch.randint(classes, (batch,))
        return ids, torch.randint(vocabulary, (batch, length))

    return draw


@dataclass(frozen=True)
class Workload:
    """A network, its data and its optimiser; a row without optimiser is inference."""

    what: str
    network: Callable[[], nn.Module]
    draw: Callable[[int], tuple]
    batch: int
    optimiser: tuple[str, dict] | None  # class name in torch.optim, arguments
    items_per_sample: int = 1  # tokens of a sample, where the rate is given in tokens

    @property
    def training(self) -> bool:
        return self.optimiser is not None
