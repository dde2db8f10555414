"""Makes both sides of a measurement: a call of n repetitions here, and n calls of eager torch."""

from __future__ import annotations

import math
from collections.abc import Callable

import poptorch
import torch
from poptorch_core import _core

from benchmarks.ops.case import Case
from benchmarks.ops.updates import Update


def _as_tuple(results) -> tuple[torch.Tensor, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def _element(result: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """One element, so that a repetition does not copy its result to the host.

    The compiler does not know which, so that it cannot leave out the others.
    """
    return result.reshape(-1).index_select(0, at)


class Function(torch.nn.Module):
    """Calls a case's function, and if asked its gradients, on inputs that the device keeps."""

    def __init__(self, case: Case, inputs: list[torch.Tensor], gradients: bool) -> None:
        super().__init__()
        self.function = case.function
        self.inputs = []
        for i, value in enumerate(inputs):
            if gradients and value.is_floating_point():
                self.register_parameter(f"input{i}", torch.nn.Parameter(value))
            else:
                self.register_buffer(f"input{i}", value)
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))
        self.count, self.gradients = len(inputs), gradients
        if gradients:
            outputs = [y for y in self._outputs() if y.requires_grad]
            for i, y in enumerate(outputs):
                self.register_buffer(f"cotangent{i}", torch.ones_like(y) * 0.5)

    def _outputs(self) -> tuple[torch.Tensor, ...]:
        return _as_tuple(self.function(*(getattr(self, f"input{i}") for i in range(self.count))))

    def results(self) -> tuple[torch.Tensor, ...]:
        outputs = self._outputs()
        if not self.gradients:
            return outputs
        wanted = [y for y in outputs if y.requires_grad]
        leaves = list(self.parameters())
        cotangents = [getattr(self, f"cotangent{i}") for i in range(len(wanted))]
        return torch.autograd.grad(wanted, leaves, cotangents)

    def forward(self, _step: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(_element(result, self.at) for result in self.results())


class _Sum(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, _step: torch.Tensor) -> torch.Tensor:
        return poptorch.identity_loss(self.weight, "sum")


class Ours:
    """A wrapped model with a number of repetitions (deviceIterations) in each call."""

    def __init__(self, wrapped, repetitions: int) -> None:
        self.wrapped, self.steps = wrapped, torch.zeros(repetitions, 1)
        self.first = _as_tuple(wrapped(self.steps))

    def __call__(self) -> None:
        self.wrapped(self.steps)

    def reference_kernels(self) -> list[str]:
        """The ops that run a reference kernel, apart from those without a result."""
        lines = [line for line in self.wrapped.graph("bound").splitlines() if "(reference)" in line]
        return sorted({line.partition(" = ")[2].partition("(")[0] for line in lines if "=" in line})

    def costs(self) -> list[tuple[str, float, float]]:
        """The name, the FLOPs on matrix units and the bytes of each op of a repetition."""
        module = _core.parse(self.wrapped.graph("placed"))
        ops = [op for graph in module.graphs for op in graph.ops]
        return [(op.name, flops if matrix else 0.0, size)
                for op in ops for flops, size, matrix in [op.cost]]  # fmt: skip


def _options(repetitions: int, stochastic: bool) -> poptorch.Options:
    options = poptorch.Options().deviceIterations(repetitions)
    options.outputMode(poptorch.OutputMode.Final)
    options.showCompilationProgressBar(False)
    if stochastic:
        options.Precision.enableStochasticRounding(True)
    return options


class Program:
    """One case with a size, a dtype and a mode."""

    def __init__(self, case: Case | Update, size: int, dtype: torch.dtype, gradients: bool) -> None:
        self.case, self.gradients = case, gradients
        self.inputs = (
            [case.weight(size, dtype)] if isinstance(case, Update) else case.inputs(size, dtype)
        )

    def ours(self, repetitions: int, stochastic: bool) -> Ours:
        options = _options(repetitions, stochastic)
        if isinstance(self.case, Update):
            model = _Sum(self.inputs[0].clone())
            wrapped = poptorch.trainingModel(
                model, options, self.case.make(list(model.parameters()))
            )
        else:
            model = Function(self.case, self.inputs, self.gradients)
            wrapped = poptorch.inferenceModel(model.eval(), options)
        return Ours(wrapped, repetitions)

    def eager(self) -> Callable[[], object]:
        """Returns a function that runs one repetition of the same in eager torch."""
        if isinstance(self.case, Update):
            return self._eager_update()
        model = Function(self.case, self.inputs, self.gradients)
        if self.gradients:
            return model.results
        inputs = self.inputs

        def run() -> object:
            with torch.no_grad():
                return self.case.function(*inputs)

        return run

    def _eager_update(self) -> Callable[[], object]:
        model = _Sum(self.inputs[0].clone())
        optimiser = self.case.make(list(model.parameters()))

        def step() -> None:
            optimiser.zero_grad(set_to_none=True)
            model.weight.sum().backward()
            optimiser.step()

        return step

    def bytes(self) -> int:
        """The size of the inputs."""
        return math.fsum(t.numel() * t.element_size() for t in self.inputs)
