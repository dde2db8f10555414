"""The public functions that wrap a model."""

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

    Args:
        model: The model. Its outputs include the loss: any of torch's losses, or
            poptorch.identity_loss.
        options: The options; default poptorch.Options(). The wrapper freezes and copies them.
        optimizer: An optimiser of torch.optim or poptorch.optim; default SGD with learning rate
            0.01.

    Returns:
        A wrapper that is called like the model.

    Raises:
        poptorch.Error: An argument is of a wrong type, or an option does not fit the model.
        RuntimeError: Another trainingModel already wraps the model.

    Example:
        >>> training = poptorch.trainingModel(model, options, optimizer)
        >>> output, loss = training(images, labels)
    """
    _check_model(model, "trainingModel")
    if optimizer is not None:
        description.kind_of(optimizer)
    return PoplarExecutor(model, options, True, optimizer=optimizer)


def inferenceModel(
    model: torch.nn.Module | PoplarExecutor | Callable[..., Any], options: Options | None = None
) -> PoplarExecutor:
    """Wraps a model for inference: a call runs its forward pass.

    Args:
        model: A module, a training wrapper or any function of tensors. The wrappers of one model
            share its weights.
        options: The options; default poptorch.Options(). The wrapper freezes and copies them.

    Returns:
        A wrapper that is called like the model.

    Raises:
        poptorch.Error: An argument is of a wrong type, or an option does not fit the model.

    Example:
        >>> inference = poptorch.inferenceModel(model)
        >>> output = inference(images)
    """
    _check_model(model, "inferenceModel", callable(model))
    return PoplarExecutor(model, options, False)


def load(
    filename: str | os.PathLike,
    edit_opts_fn: Callable[[Options], object] | None = None,
    trust: bool = False,
) -> PoplarExecutor:
    """Loads a wrapper and its model from a file of compileAndExport() or save().

    Args:
        filename: The file.
        edit_opts_fn: A function that gets the saved options; it may set those that take effect at
            run time.
        trust: Unpickles the model without checking the names in the file. Set it only for files
            from a source you trust. If False, a file may contain only tensors, containers, classes
            of torch and poptorch, and modules of classes that the program has imported (see
            add_safe_globals).

    Returns:
        The wrapper, ready to run without a compilation.

    Raises:
        AssertionError: The file is not a file of this kind.
        poptorch.Error: The file is damaged, or contains a name that is not allowed.
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
            "host. Wrap the original model."
        )
    if inspect.isclass(model) or not (
        allowed or isinstance(model, (torch.nn.Module, PoplarExecutor))
    ):
        raise Error(
            f"[{function}] expected a torch.nn.Module but got {model!r}. Pass the model, an object "
            f"of its class ({user_location()})."
        )
