"""Defines one-line op cases, and the helper that runs them.

A case is a function of tensors and a description of its inputs. The helper compares shape, dtype
and values of every output, and the gradients of all floating-point inputs, with eager torch.

Gradients come from one step of plain SGD at learning rate 1 on inputs held as parameters: gradient
= value before - value after.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import poptorch
import torch


@dataclasses.dataclass(frozen=True)
class Input:
    """Describes one input tensor: made from the case's generator, so always the same."""

    make: Callable[[torch.Generator], torch.Tensor]
    differentiable: bool = True


def normal(*shape: int) -> Input:
    return Input(lambda g: torch.randn(shape, generator=g))


def uniform(low: float, high: float, *shape: int) -> Input:
    return Input(lambda g: torch.rand(shape, generator=g) * (high - low) + low)


def distinct(*shape: int) -> Input:
    """Returns values far apart, so that none is near a tie or a kink (max, sort, rounding)."""

    def make(g: torch.Generator) -> torch.Tensor:
        count = int(torch.Size(shape).numel())
        return ((torch.randperm(count, generator=g) - count // 2) * 0.37 + 0.11).reshape(shape)

    return Input(make)


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> Input:
    return Input(lambda g: torch.randint(low, high, shape, generator=g).to(dtype), False)


def bools(*shape: int) -> Input:
    return Input(lambda g: torch.rand(shape, generator=g) > 0.5, False)


def simplex(*shape: int) -> Input:
    """Returns probabilities that sum to one over the last dimension."""
    return Input(lambda g: torch.softmax(torch.randn(shape, generator=g), -1), False)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    rtol: float = 1e-5
    atol: float = 1e-5
    gradients: bool = True


def case(name: str, function: Callable[..., Any], *inputs: Any, **options: Any) -> Case:
    """`inputs` are Input objects; a plain tuple is a shape of standard normal values."""
    made = tuple(i if isinstance(i, Input) else normal(*i) for i in inputs)
    return Case(name, function, made, **options)


def _as_tuple(outputs: Any) -> tuple[torch.Tensor, ...]:
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def _loss(outputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns a scalar in which every element of every float output has a different weight."""
    terms = [
        (out.float() * weight).sum()
        for out, weight in zip(outputs, weights, strict=True)
        if out.is_floating_point()
    ]
    return torch.stack(terms).sum()


class _Trained(torch.nn.Module):
    """Holds the differentiable inputs as parameters; the loss weights are frozen constants."""

    def __init__(self, function, inputs, differentiable, weights):
        super().__init__()
        self.function = function
        self.weight_names = [f"weight{i}" for i in range(len(weights))]
        for name, weight in zip(self.weight_names, weights, strict=True):
            setattr(self, name, weight)
        self.differentiable = differentiable
        self.held = torch.nn.ParameterList(
            [torch.nn.Parameter(t) for t, d in zip(inputs, differentiable, strict=True) if d]
        )

    def forward(self, *others):
        held, rest = iter(self.held), iter(others)
        arguments = [next(held) if d else next(rest) for d in self.differentiable]
        # Copies: a result that is a view of a parameter has its value after the step.
        outputs = [out.clone() for out in _as_tuple(self.function(*arguments))]
        weights = [getattr(self, name) for name in self.weight_names]
        return outputs, poptorch.identity_loss(_loss(outputs, weights), reduction="none")


class _Inferred(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def _demoted(tensor: torch.Tensor) -> torch.Tensor:
    """Returns eager's result as a model returns it: int64 and float64 become 32 bits."""
    narrow = {torch.int64: torch.int32, torch.float64: torch.float32}
    return tensor.to(narrow.get(tensor.dtype, tensor.dtype))


def _compare(what: str, ours: torch.Tensor, eager: torch.Tensor, case: Case) -> None:
    def message(text: str) -> str:
        return f"{case.name}, {what}: {text}"

    torch.testing.assert_close(
        ours, eager, rtol=case.rtol, atol=case.atol, equal_nan=True, msg=message
    )


def run_case(case: Case) -> None:
    """Runs the case through PopTorch and through eager torch, and compares."""
    generator = torch.Generator().manual_seed(20)
    inputs = [i.make(generator) for i in case.inputs]
    differentiable = [case.gradients and i.differentiable for i in case.inputs]
    eager_inputs = [
        t.clone().requires_grad_(d) for t, d in zip(inputs, differentiable, strict=True)
    ]
    eager = _as_tuple(case.function(*eager_inputs))
    if not any(differentiable):
        ours = _as_tuple(poptorch.inferenceModel(_Inferred(case.function))(*inputs))
    else:
        weights = [torch.rand(out.shape, generator=generator) + 0.5 for out in eager]
        model = _Trained(case.function, inputs, differentiable, weights)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        wrapped = poptorch.trainingModel(model, optimizer=optimizer)
        others = [t for t, d in zip(inputs, differentiable, strict=True) if not d]
        ours, _ = wrapped(*others)
        wrapped.copyWeightsToHost()
        _loss(eager, weights).backward()
    assert len(ours) == len(eager)
    for i, (got, expected) in enumerate(zip(ours, eager, strict=True)):
        _compare(f"output {i}", got, _demoted(expected.detach()), case)
    if any(differentiable):
        held = iter(model.held)
        for i, tensor in enumerate(eager_inputs):
            if differentiable[i]:
                gradient = tensor.detach() - next(held).detach()
                expected = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
                _compare(f"gradient of input {i}", gradient, expected, case)
        wrapped.destroy()
