"""Defines cases: functions of torch that compile to the ops they measure, in three sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

SIZES = ("small", "typical", "large")
FLOATS = (torch.float32, torch.float16, torch.bfloat16)

Make = Callable[[torch.dtype, torch.Generator], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Input:
    """One operand. `make(dtype, generator)` returns it; one that `follows` has the case's dtype."""

    make: Make
    follows: bool = True


def normal(*shape: int) -> Input:
    """Standard normal values, or for integers values from -9 to 9."""

    def make(dtype: torch.dtype, g: torch.Generator) -> torch.Tensor:
        if dtype.is_floating_point:
            return torch.randn(shape, generator=g).to(dtype)
        return torch.randint(-9, 10, shape, generator=g).to(dtype)

    return Input(make)


def within(low: float, high: float, *shape: int) -> Input:
    """Uniform values; integers stay one away from the bounds."""

    def make(dtype: torch.dtype, g: torch.Generator) -> torch.Tensor:
        if dtype.is_floating_point:
            return (torch.rand(shape, generator=g) * (high - low) + low).to(dtype)
        least = int(low) + 1
        most = max(int(high), least + 1)
        return torch.randint(least, most, shape, generator=g).to(dtype)

    return Input(make)


def bools(*shape: int) -> Input:
    return Input(lambda _dtype, g: torch.rand(shape, generator=g) > 0.5, follows=False)


def indices(below: int, *shape: int) -> Input:
    """Indices as programs have them: int64."""
    return Input(lambda _dtype, g: torch.randint(below, shape, generator=g), follows=False)


@dataclasses.dataclass(frozen=True)
class Case:
    """`function(*inputs)` of one size. `rows` are the ops of the vocabulary that it measures.

    `gradient_rows` are measured by the function and its gradients for all floating inputs.
    """

    name: str
    function: Callable[..., Any]
    sizes: dict[int, tuple[Input, ...]] = dataclasses.field(hash=False)  # by the number of a size
    rows: tuple[str, ...]
    gradient_rows: tuple[str, ...] = ()
    dtypes: tuple[torch.dtype, ...] = FLOATS
    gradients: bool = True

    def inputs(self, size: int, dtype: torch.dtype) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(size + 1)
        return [each.make(dtype, generator) for each in self.sizes[size]]


def case(
    name: str,
    function: Callable[..., Any],
    *sizes: Sequence[Input],
    rows: str = "",
    grad: str = "",
    **options: Any,
) -> Case:
    """Returns a case; `rows` and `grad` are names of ops, by default the case's own name."""
    return Case(
        name,
        function,
        {i: tuple(inputs) for i, inputs in enumerate(sizes)},
        tuple((rows or name).split()),
        tuple(grad.split()),
        **options,
    )


def typical(name: str, function: Callable[..., Any], *inputs: Input, **options: Any) -> Case:
    """Returns a case of a function that becomes several ops, in the typical size alone."""
    return Case(name, function, {SIZES.index("typical"): inputs}, (), **options)
