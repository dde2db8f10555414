"""The function that torch.compile calls for each graph of a model."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from poptorch._impl.torch_compile.aliases import has_aliases
from poptorch._impl.torch_compile.program import Program
from poptorch_core import Error
from torch import fx


def backend(graph: fx.GraphModule, examples: Sequence[Any], **settings: Any) -> Callable:
    """Returns a function that runs a graph on the device: torch.compile(..., backend="poptorch").

    Args:
        graph: A graph of torch._dynamo. Parameters and buffers are inputs of it.
        examples: Inputs of the graph, with their shapes and dtypes.
        settings: `mode` or `options` of torch.compile.

    Raises:
        poptorch.Error: A setting is not known.
    """
    if settings:
        named = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        raise Error(
            f"[torch.compile] backend='poptorch' does not take {named}. Leave it out, or wrap the "
            "model with poptorch.inferenceModel or poptorch.trainingModel, which take options."
        )
    if _needs_gradients(examples) or has_aliases(graph):
        return _with_autograd(graph, examples)
    return Program(graph, examples, "graph")


def _needs_gradients(examples: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(example, torch.Tensor) and example.requires_grad for example in examples
    )


def _with_autograd(graph: fx.GraphModule, examples: Sequence[Any]) -> Callable:
    """Lets AOTAutograd divide a graph into functions of plain tensors, which the device runs.

    AOTAutograd itself updates mutated inputs, and makes results again that are views of inputs.
    """
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(
        fw_compiler=_maker("forward"),
        bw_compiler=_maker("backward"),
        inference_compiler=_maker("graph"),
    )(graph, examples)


def _maker(part: str) -> Callable:
    """Returns a function that AOTAutograd calls with a graph, and that returns the program."""

    def make(graph: fx.GraphModule, examples: Sequence[Any]) -> Callable:
        return _Boxed(Program(graph, examples, part))

    return make


class _Boxed:
    """A program that takes its inputs in one list, as AOTAutograd passes them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._boxed_call = True  # torch looks for it, here or in a wrapper of this object

    def __call__(self, inputs: list[Any]) -> list[Any]:
        return self._program(*inputs)
