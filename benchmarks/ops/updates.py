"""Cases of optimiser updates: one training step whose loss is the sum of the weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import poptorch
import torch

from benchmarks.ops.case import FLOATS

SHAPES = ((32, 32), (64, 1024), (1024, 4096))


@dataclasses.dataclass(frozen=True)
class Update:
    """`make(parameters)` returns an optimiser, which steps on the host and on the device."""

    name: str
    make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
    rows: tuple[str, ...]
    gradient_rows: tuple[str, ...] = ()
    dtypes: tuple[torch.dtype, ...] = FLOATS
    sizes = range(len(SHAPES))

    def weight(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        generator = torch.Generator().manual_seed(size + 1)
        return torch.randn(SHAPES[size], generator=generator).to(dtype)


CASES = [
    Update("sgd", lambda p: torch.optim.SGD(p, lr=0.01, weight_decay=0.1), ("sgd_update",)),
    Update(
        "sgd_momentum",
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        ("sgd_momentum_update",),
    ),
    Update("adam", lambda p: torch.optim.Adam(p, lr=1e-3), ("adam_update",)),
    Update("adamw", lambda p: torch.optim.AdamW(p, lr=1e-3), ("adam_update",)),
    Update("rmsprop", lambda p: torch.optim.RMSprop(p, lr=1e-3), ("rmsprop_update",)),
    Update("lamb", lambda p: poptorch.optim.LAMB(p, lr=1e-3), ("lamb_direction",)),
]
