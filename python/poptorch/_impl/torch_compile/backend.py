"""The function that torch.compile calls for each graph of a model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from poptorch._impl.torch_compile.aliases import has_aliases
from poptorch._impl.torch_compile.program import Program
from poptorch.options import Options
from poptorch_core import Error
from torch import fx


def backend(
    graph: fx.GraphModule,
    examples: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Callable:
    """Returns a function that runs a graph on the device: torch.compile(..., backend="poptorch").

    Args:
        graph: A graph of torch._dynamo. Parameters and buffers are inputs of it.
        examples: Inputs of the graph, with their shapes and dtypes.
        options: Options as in poptorch.Options.from_dict.
        settings: `mode` of torch.compile, which this backend does not take.

    Raises:
        poptorch.Error: A setting or an option is not known, or does not fit.
    """
    if settings:
        named = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        raise Error(f"[torch.compile] backend='poptorch' does not take {named}. Leave it out.")
    chosen = _checked(Options.from_dict(options or {}))
    if _needs_gradients(examples) or has_aliases(graph):
        return _with_autograd(graph, examples, chosen)
    return Program(graph, examples, "graph", chosen)


def _checked(options: Options) -> Options:
    """Returns the options. Raises poptorch.Error if a call would run several micro-batches."""
    accumulated = options.Training.gradient_accumulation
    if max(options.device_iterations, options.replication_factor, accumulated) > 1:
        raise Error(
            "[torch.compile] a graph runs one micro-batch a call. Leave out device iterations, "
            "gradient accumulation and replicas, or wrap the model with poptorch.trainingModel."
        )
    return options


def _needs_gradients(examples: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(example, torch.Tensor) and example.requires_grad for example in examples
    )


def _with_autograd(graph: fx.GraphModule, examples: Sequence[Any], options: Options) -> Callable:
    """Lets AOTAutograd divide a graph into functions of plain tensors, which the device runs.

    AOTAutograd itself updates mutated inputs, and makes results again that are views of inputs.
    """
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(
        fw_compiler=_maker("forward", options),
        bw_compiler=_maker("backward", options),
        inference_compiler=_maker("graph", options),
    )(graph, examples)


def _maker(part: str, options: Options) -> Callable:
    """Returns a function that AOTAutograd calls with a graph, and that returns the program."""

    def make(graph: fx.GraphModule, examples: Sequence[Any]) -> Callable:
        return _Boxed(Program(graph, examples, part, options))

    return make


class _Boxed:
    """A program that takes its inputs in one list, as AOTAutograd passes them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._boxed_call = True  # torch looks for it, here or in a wrapper of this object

    def __call__(self, inputs: list[Any]) -> list[Any]:
        return self._program(*inputs)
