"""The functions that wrap a model."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from poptorch._impl import optimisers
from poptorch._impl.executor import PoplarExecutor
from poptorch.options import Options
from poptorch_core import Error


def trainingModel(
    model: torch.nn.Module | PoplarExecutor,
    options: Options | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> PoplarExecutor:
    """Wraps a model for training: a call runs forward, backward and the weight update.

    model: returns its loss (any of torch's losses, or poptorch.identity_loss) among its outputs.
    optimizer: of torch.optim or poptorch.optim; default SGD with learning rate 0.01.
    """
    _check_model(model, "trainingModel")
    if optimizer is not None:
        optimisers.kind_of(optimizer)
    return PoplarExecutor(model, options, True, optimizer)


def inferenceModel(
    model: torch.nn.Module | PoplarExecutor | Callable[..., Any], options: Options | None = None
) -> PoplarExecutor:
    """Wraps a model, a training wrapper or any function of tensors for inference."""
    _check_model(model, "inferenceModel", callable(model))
    return PoplarExecutor(model, options, False)


def _check_model(model: Any, function: str, allowed: bool = False) -> None:
    if isinstance(model, torch._dynamo.OptimizedModule):
        raise Error(
            f"[{function}] the model comes from torch.compile, which would compile it for the "
            "host. Wrap the model itself."
        )
    if inspect.isclass(model) or not (
        allowed or isinstance(model, (torch.nn.Module, PoplarExecutor))
    ):
        raise Error(f"[{function}] expected a torch.nn.Module but got {model!r}.")
