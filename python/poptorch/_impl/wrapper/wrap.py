"""The functions that wrap a model."""

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from poptorch._impl.files import executable
from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.optimisers import description
from poptorch._impl.wrapper import lifecycle
from poptorch._impl.wrapper.executor import PoplarExecutor
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
        description.kind_of(optimizer)
    return PoplarExecutor(model, options, True, optimizer=optimizer)


def inferenceModel(
    model: torch.nn.Module | PoplarExecutor | Callable[..., Any], options: Options | None = None
) -> PoplarExecutor:
    """Wraps a model, a training wrapper or any function of tensors for inference."""
    _check_model(model, "inferenceModel", callable(model))
    return PoplarExecutor(model, options, False)


def load(
    filename: str | os.PathLike,
    edit_opts_fn: Callable[[Options], object] | None = None,
    trust: bool = False,
) -> PoplarExecutor:
    """The wrapper that compileAndExport() or save() wrote, with its model, ready to run.

    edit_opts_fn: gets the options and may set those that take effect at run time. trust: unpickles
    the model without looking at what the file names, so only for files of your own; without it that
    is tensors, containers, torch's and poptorch's classes and modules of classes that the program
    has imported (see add_safe_globals). Raises AssertionError for what is no such file, and
    poptorch.Error for what is damaged or names anything else.
    """
    try:
        saved = executable.Saved.open(filename)
    except Error as error:
        raise AssertionError(error.message) from None
    model, options, optimizer = saved.parts(edit_opts_fn, trust)
    with executable.refusing(filename):
        executor = PoplarExecutor(model, options, saved.about["training"], optimizer=optimizer)
        lifecycle.load(executor, saved, with_state=True)
    return executor


def _check_model(model: Any, function: str, allowed: bool = False) -> None:
    dynamo = sys.modules.get("torch._dynamo")  # not imported for this: it takes a second
    if dynamo is not None and isinstance(model, dynamo.OptimizedModule):
        raise Error(
            f"[{function}] the model comes from torch.compile, which would compile it for the "
            "host. Wrap the model itself."
        )
    if inspect.isclass(model) or not (
        allowed or isinstance(model, (torch.nn.Module, PoplarExecutor))
    ):
        raise Error(
            f"[{function}] expected a torch.nn.Module but got {model!r}. Pass the model, an object "
            f"of its class ({user_location()})."
        )
